# SPDX-License-Identifier: Apache-2.0
"""Views: other ways to call the same model."""

import os
import re

import keras
import numpy as np
import pytest
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.views import View
from tests import zoo
from tests.helpers import TestCase

VIEWS = {
    "stochastic": lambda model: kbd.stochastic(model, seed=4),
    "shared": lambda model: kbd.stochastic(model, masks="shared", seed=4),
    "deterministic": kbd.deterministic,
    "sample": lambda model: kbd.sample_function(model, 5, 3),
}
EACH_VIEW = parameterized.named_parameters(*VIEWS.items())

LOAD = """
import sys
import numpy as np
import keras_bayesdrop
import keras
folder, *names = sys.argv[1:]
x = np.load(f"{folder}/x.npy")
for name in names:
    view = keras.models.load_model(f"{folder}/{name}.keras")
    np.save(f"{folder}/{name}.npy", np.asarray(view(x)))
    print(type(view).__name__)
"""


def model_of_everything():
    """Only layers of Keras and ours, so that it loads anywhere."""
    inputs = keras.Input((4, 3))
    x = keras.layers.LSTM(3, dropout=0.3, return_sequences=True)(inputs)
    x = keras.layers.MultiHeadAttention(1, 2, dropout=0.2)(x, x)
    x = keras.layers.BatchNormalization()(x)
    x = kbd.MCDropout(0.3)(x)
    inner = keras.Sequential(
        [keras.Input((4, 3)), keras.layers.Dense(3), keras.layers.Dropout(0.5)]
    )
    model = keras.Model(inputs, inner(x))
    zoo.move_statistics(model)
    return model, zoo.numbers(4, 3)


class ViewTest(TestCase):
    @EACH_VIEW
    def test_shares_weights(self, make):
        model, x = zoo.ZOO["batch_norm"].build()
        view = make(model)
        self.assertIsInstance(view, keras.Model)
        self.assertEqual(
            [id(w) for w in view.weights], [id(w) for w in model.weights]
        )
        before = np.asarray(view(x))
        for weight in model.trainable_weights:
            weight.assign(weight + 1.0)
        self.assertNotAllClose(make(model)(x), before)

    def test_saves_and_loads_in_a_new_process(self):
        model, x = model_of_everything()
        folder = self.get_temp_dir()
        np.save(os.path.join(folder, "x.npy"), x)
        views = {name: make(model) for name, make in VIEWS.items()}
        for name, view in views.items():
            view.save(os.path.join(folder, f"{name}.keras"))
        printed = self.run_in_new_process(LOAD, folder, *views)
        self.assertEqual(
            printed.split(), [type(view).__name__ for view in views.values()]
        )
        # A stochastic view begins its stream anew: seeds are not saved.
        for name, view in views.items():
            self.assertAllClose(
                np.load(os.path.join(folder, f"{name}.npy")),
                view(x),
                rtol=1e-5,
                atol=1e-6,
            )

    @parameterized.named_parameters(
        ("name", "first"),
        ("expression", "fir.*"),
        ("list", ["first", "third"]),
        ("tuple", ("third",)),
        ("pattern", re.compile("^fir")),
    )
    def test_selection_is_saved(self, selection):
        inputs = keras.Input((4,))
        outputs = [
            keras.layers.Dropout(0.5, name=name)(inputs)
            for name in ("first", "second", "third")
        ]
        model = keras.Model(inputs, outputs)
        view = kbd.sample_function(model, 0, 1, layers=selection)
        path = os.path.join(self.get_temp_dir(), "view.keras")
        view.save(path)
        loaded = keras.models.load_model(path)
        x = np.ones((3, 4), "float32")
        for a, b in zip(view(x), loaded(x), strict=True):
            self.assertAllEqual(a, b)

    @EACH_VIEW
    @pytest.mark.slow
    def test_predict_under_xla(self, make):
        for kind in ("functional", "lstm", "subclassed_deep", "masked_lstm"):
            model, x = zoo.ZOO[kind].build()
            eager = np.asarray(make(model)(x))
            view = make(model)
            view.compile(jit_compile=True)
            self.assertTrue(view.jit_compile)
            self.assertAllClose(
                view.predict(x, verbose=0), eager, rtol=1e-4, atol=1e-5
            )

    @EACH_VIEW
    def test_predict_under_xla_on_a_small_model(self, make):
        model, x = zoo.ZOO["gaussian_dropout"].build()
        eager = np.asarray(make(model)(x))
        view = make(model)
        view.compile(jit_compile=True)
        self.assertAllClose(
            view.predict(x, verbose=0), eager, rtol=1e-4, atol=1e-5
        )

    @EACH_VIEW
    def test_keras_habits(self, make):
        model, x = zoo.ZOO["functional"].build()
        view = make(model)
        lines = []
        view.summary(print_fn=lambda line, **_: lines.append(line))
        self.assertIn(view.name, "".join(lines))
        clone = keras.models.clone_model(view)
        self.assertIsInstance(clone, type(view))
        self.assertIsNot(clone.source, model)
        self.assertEqual(clone(x).shape, (5, 3))
        self.assertLen(view.predict(x, batch_size=2, verbose=0), 5)

    @EACH_VIEW
    def test_inside_another_model(self, make):
        model, x = zoo.ZOO["functional"].build()
        before = zoo.fingerprint(model)
        inputs = keras.Input((4,))
        outer = keras.Model(inputs, make(model)(inputs))
        self.assertAllClose(
            outer.predict(x, verbose=0), make(model)(x), rtol=1e-5, atol=1e-6
        )
        self.assertEqual(zoo.fingerprint(model), before)

    @EACH_VIEW
    def test_tensors_arrays_and_float64(self, make):
        model, x = zoo.ZOO["functional"].build()
        want = make(model)(x)
        self.assertAllEqual(make(model)(keras.ops.convert_to_tensor(x)), want)
        self.assertAllEqual(make(model)(x.astype("float64")), want)

    @EACH_VIEW
    def test_view_of_a_view(self, make):
        model, x = zoo.ZOO["functional"].build()
        for other in VIEWS.values():
            view = make(other(model))
            self.assertNotIsInstance(view.source, View)
            self.assertAllEqual(view(x), make(model)(x))

    def test_view_of_a_view_keeps_the_selection(self):
        model, x = zoo.ZOO["functional"].build()
        name = next(
            layer.name
            for layer in model.layers
            if isinstance(layer, keras.layers.Dropout)
        )
        inner = kbd.stochastic(model, layers=name)
        self.assertAllEqual(
            kbd.sample_function(inner, 0)(x),
            kbd.sample_function(model, 0, layers=name)(x),
        )
        p, q = (
            kbd.predict_with_uncertainty(m, x, 4, seed=0, layers=la, verbose=0)
            for m, la in ((inner, None), (model, name))
        )
        self.assertAllEqual(p.mean, q.mean)


class StochasticTest(TestCase):
    def test_masks(self):
        model = keras.Sequential(
            [keras.Input((50,)), keras.layers.Dropout(0.5)]
        )
        x = np.ones((4, 50), "float32")
        shared = np.asarray(kbd.stochastic(model, masks="shared")(x))
        self.assertAllEqual(shared, np.tile(shared[:1], (4, 1)))
        own = np.asarray(kbd.stochastic(model)(x))
        # Two rows of 50 fair units agree with probability 2^-50.
        self.assertLen(np.unique(own, axis=0), 4)

    def test_seed(self):
        model, x = zoo.ZOO["functional"].build()
        first = [np.asarray(v(x)) for v in [kbd.stochastic(model, seed=1)] * 3]
        second = [np.asarray(v(x)) for v in [kbd.stochastic(model, seed=1)] * 3]
        self.assertAllEqual(first, second)
        self.assertNotAllClose(first[0], first[1])
        self.assertNotAllClose(kbd.stochastic(model, seed=2)(x), first[0])

    def test_predict_draws_anew_for_every_batch_and_call(self):
        model = keras.Sequential(
            [keras.Input((50,)), keras.layers.Dropout(0.5)]
        )
        x = np.ones((4, 50), "float32")
        view = kbd.stochastic(model)
        drawn = [view.predict(x, batch_size=2, verbose=0) for _ in range(2)]
        self.assertLen(np.unique(np.concatenate(drawn), axis=0), 8)

    def test_training_argument_does_not_train(self):
        model, x = zoo.ZOO["batch_norm"].build()
        before = zoo.fingerprint(model)
        view = kbd.stochastic(model, seed=0)
        want = kbd.stochastic(model, seed=0)(x)
        self.assertAllEqual(view(x, training=True), want)
        self.assertEqual(zoo.fingerprint(model), before)

    def test_fit_through_a_view_trains_the_source(self):
        model, x = zoo.ZOO["sequential"].build()
        before = [np.array(w) for w in model.get_weights()]
        view = kbd.stochastic(model, seed=0)
        view.compile(keras.optimizers.SGD(0.1), "mse")
        view.fit(x, np.ones((5, 2)), verbose=0)
        for old, new in zip(before, model.get_weights(), strict=True):
            self.assertNotAllClose(old, new)

    def test_only_the_chosen_noise(self):
        model, x = zoo.ZOO["functional"].build()
        first, second = (
            layer.name
            for layer in model.layers
            if isinstance(layer, keras.layers.Dropout)
        )
        inputs = keras.Input((4,))
        y = model.get_layer(first)(inputs)
        view = kbd.stochastic(keras.Model(inputs, y), layers=first)
        self.assertNotAllClose(view(x), x)
        samples = [
            np.asarray(kbd.sample_function(model, 0, 0, layers=chosen)(x))
            for chosen in (None, first, second)
        ]
        self.assertNotAllClose(samples[1], samples[0])
        self.assertNotAllClose(samples[2], samples[0])
        self.assertNotAllClose(samples[1], samples[2])


class SampleFunctionTest(TestCase):
    def test_is_one_function(self):
        model, x = zoo.ZOO["functional"].build()
        f = kbd.sample_function(model, 0, 2)
        whole = np.asarray(f(x))
        self.assertAllEqual(f(x), whole)
        self.assertAllClose(f(x[::-1])[::-1], whole, rtol=1e-6, atol=1e-6)
        self.assertAllClose(f(x[3:4])[0], whole[3], rtol=1e-6, atol=1e-6)
        self.assertAllClose(
            f.predict(x, batch_size=2, verbose=0), whole, rtol=1e-6, atol=1e-6
        )

    def test_seeds_and_samples_differ(self):
        model, x = zoo.ZOO["functional"].build()
        drawn = [
            np.asarray(kbd.sample_function(model, seed, sample)(x)).ravel()
            for seed in (0, 1, -1, 2**64 + 2, 2**70)
            for sample in (0, 1, 16, 2**20)
        ]
        # 2^64 + 2 and 2^70 are 2 and 0 as 64-bit keys.
        self.assertLen(np.unique(drawn, axis=0), 16)
