# SPDX-License-Identifier: Apache-2.0
"""Noise inside layers: found, redirected, and given back."""

import threading

import keras
import numpy as np

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.sites import inner_sites
from keras_bayesdrop.graph.sites import redirected
from tests import zoo
from tests.graph.sites.by import By
from tests.helpers import TestCase
from tests.zoo.subclassed import Block

layers = keras.layers


def paths(layer, path="top"):
    return [site.path for site in inner_sites(layer, path)]


def built(layer, *shape):
    keras.Sequential([keras.Input(shape), layer])
    return layer


class InnerSitesTest(TestCase):
    def test_paths(self):
        self.assertEqual(paths(layers.Dropout(0.5)), ["top"])
        self.assertEqual(paths(layers.Dense(2)), [])
        self.assertEqual(
            paths(layers.LSTM(2, dropout=0.1, recurrent_dropout=0.2)),
            ["top/dropout", "top/recurrent_dropout"],
        )
        self.assertEqual(
            paths(layers.GRU(2, recurrent_dropout=0.2)),
            ["top/recurrent_dropout"],
        )
        self.assertEqual(paths(layers.Attention(dropout=0.2)), ["top"])
        self.assertEqual(paths(layers.Attention()), [])
        cells = [
            layers.LSTMCell(2, dropout=0.1, name="a"),
            layers.GRUCell(2, dropout=0.1, name="b"),
        ]
        self.assertEqual(
            paths(layers.RNN(cells)), ["top/a/dropout", "top/b/dropout"]
        )
        block = Block(3, repeats=4)
        self.assertEqual(paths(block), [f"top/{block.dropout.name}"])

    def test_bidirectional_has_one_site_per_direction(self):
        layer = layers.Bidirectional(layers.LSTM(2, dropout=0.5, name="it"))
        self.assertEqual(
            paths(layer), ["top/forward_it/dropout", "top/backward_it/dropout"]
        )

    def test_multi_head_attention_has_one_site(self):
        layer = built(Block(3), 3)
        self.assertLen(paths(layer), 1)
        attention = layers.MultiHeadAttention(1, 2, dropout=0.3)
        attention(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
        self.assertLen(paths(attention), 1)

    def test_a_layer_owned_twice_is_one_site(self):
        class Owner(layers.Layer):
            def __init__(self):
                super().__init__()
                self.a = self.b = layers.Dropout(0.5)
                self.many = [self.a, {"c": self.a}]

        self.assertLen(paths(Owner()), 1)

    def test_lists_and_dicts_of_layers_are_searched(self):
        class Owner(layers.Layer):
            def __init__(self):
                super().__init__()
                self.many = [layers.Dropout(0.5), layers.Dropout(0.2)]
                self.named = {"c": layers.GaussianNoise(0.3)}

        self.assertLen(paths(Owner()), 3)

    def test_sites_of_one_name_are_told_apart(self):
        """Blocks made in a loop often name their layers alike."""

        class Model(keras.Model):
            def __init__(self):
                super().__init__()
                self.first = layers.Dropout(0.5, name="drop")
                self.second = layers.Dropout(0.5, name="drop")

            def call(self, x):
                return self.first(x), self.second(x)

        model = Model()
        x = np.ones((3, 20), "float32")
        model(x)
        noisy, certain = kbd.predict_with_uncertainty(
            model,
            x,
            8,
            seed=0,
            verbose=0,
            layers=lambda layer: layer is model.first,
        )
        self.assertGreater(noisy.variance.max(), 0)
        self.assertEqual(certain.variance.max(), 0)


class RedirectedTest(TestCase):
    def test_sends_noise_through_and_gives_it_back(self):
        block = built(Block(3, repeats=2), 3)
        x = zoo.numbers(3)
        before = sorted(vars(block.dropout))
        certain = np.asarray(block(x))
        seen = []

        def perturb(site, value):
            seen.append(site.path)
            return value * 0

        with redirected(block, "top", By(perturb)):
            self.assertAllEqual(block(x), np.zeros((5, 3)))
            self.assertAllEqual(block(x, training=True), np.zeros((5, 3)))
        self.assertEqual(seen, [f"top/{block.dropout.name}"] * 4)
        self.assertAllEqual(block(x), certain)
        self.assertEqual(sorted(vars(block.dropout)), before)

    def test_nests(self):
        block = built(Block(3), 3)
        x = zoo.numbers(3)
        with redirected(block, "", By(lambda site, value: value * 0 + 1)):
            with redirected(block, "", By(lambda site, value: value * 0 + 2)):
                self.assertAllEqual(block(x), np.full((5, 3), 2.0))
            self.assertAllEqual(block(x), np.full((5, 3), 1.0))
        self.assertNotIn("call", vars(block.dropout))

    def test_gives_back_what_the_user_put_there(self):
        dropout = layers.Dropout(0.5)
        own = lambda x, training=None: x * 3  # noqa: E731
        dropout.call = own
        with redirected(dropout, "", By(lambda site, value: value)):
            pass
        self.assertIs(vars(dropout)["call"], own)

    def test_gives_back_after_an_error(self):
        model = zoo.ZOO["subclassed_deep"].build()[0]
        before = zoo.fingerprint(model)
        with self.assertRaises(KeyError):
            with redirected(model, "", By(lambda site, value: value)):
                raise KeyError
        self.assertEqual(zoo.fingerprint(model), before)

    def test_other_threads_do_not_see_it(self):
        block = built(Block(3), 3)
        x = zoo.numbers(3)
        certain = np.asarray(block(x))
        seen = []
        with redirected(block, "", By(lambda site, value: value * 0)):
            thread = threading.Thread(target=lambda: seen.append(block(x)))
            thread.start()
            thread.join()
        self.assertAllEqual(seen[0], certain)

    def test_loans_that_overlap_are_all_taken_back(self):
        dropout = layers.Dropout(0.5)
        x = np.ones((2, 3), "float32")
        opened, reopened, closed = (threading.Event() for _ in range(3))
        seen = []

        def first():
            with redirected(dropout, "", By(lambda site, value: value * 1)):
                opened.set()
                reopened.wait(1)
            closed.set()

        def second():
            opened.wait(5)
            with redirected(dropout, "", By(lambda site, value: value * 7)):
                reopened.set()
                closed.wait(5)
                seen.append(np.asarray(dropout(x)))

        threads = [threading.Thread(target=f) for f in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertNotIn("call", vars(dropout))
        self.assertAllEqual(seen[0], np.full((2, 3), 7.0))

    def test_the_original_is_never_the_loan_of_another_thread(self):
        """Both kinds of layers call what they replace."""
        for layer, *shape in (
            (layers.GRU(2, recurrent_dropout=0.5), 4, 3),
            (layers.Attention(dropout=0.5), 4, 3),
        ):
            x = zoo.numbers(*shape)
            inputs = x if isinstance(layer, layers.GRU) else [x, x]
            certain = np.asarray(layer(inputs))
            opened, done = threading.Event(), threading.Event()

            def borrow(layer=layer, opened=opened, done=done):
                with redirected(layer, "", By(lambda site, value: value * 0)):
                    opened.set()
                    done.wait(60)

            thread = threading.Thread(target=borrow)
            thread.start()
            opened.wait(60)
            try:
                with redirected(layer, "", By(lambda site, value: value)):
                    seen = np.asarray(layer(inputs))
            finally:
                done.set()
                thread.join()
            self.assertAllClose(seen, certain, rtol=1e-6)

    def test_a_recurrent_layer_nests(self):
        layer = built(layers.SimpleRNN(2, dropout=0.5), 4, 3)
        x = zoo.numbers(4, 3)
        certain = np.asarray(layer(x))
        with redirected(layer, "", By(lambda site, value: value * 0)):
            with redirected(layer, "", By(lambda site, value: value)):
                self.assertAllClose(layer(x), certain, rtol=1e-6)

    def test_recurrent_masks_are_asked_for_once_a_call(self):
        layer = built(layers.SimpleRNN(2, dropout=0.5, unroll=True), 4, 3)
        seen = []

        def perturb(site, value):
            seen.append((site.path, tuple(value.shape)))
            return value

        with redirected(layer, "top", By(perturb)):
            layer(zoo.numbers(4, 3))
            self.assertEqual(seen, [("top/dropout", (5, 3))])
            layer(zoo.numbers(4, 3))
        self.assertLen(seen, 2)
