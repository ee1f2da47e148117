# SPDX-License-Identifier: Apache-2.0
"""Choosing noise sites, without moving the noise of the others."""

import re

import keras
import numpy as np
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.graph.sites import select_sites
from keras_bayesdrop.graph.survey import find_sites
from tests.helpers import TestCase
from tests.helpers import flat
from tests.zoo.operations import FoldsTime

layers = keras.layers


def masks_as_outputs():
    """Every output shows the mask of one site, on inputs of ones."""
    inputs = keras.Input((3, 40))
    inner = keras.Sequential(
        [keras.Input((3, 40)), layers.Dropout(0.5, name="deep")], name="inner"
    )
    rnn = layers.SimpleRNN(
        40,
        activation=None,
        use_bias=False,
        kernel_initializer="identity",
        recurrent_initializer="zeros",
        dropout=0.5,
        return_sequences=True,
        name="rnn",
    )
    again = layers.Dropout(0.5, name="again")
    outputs = {
        "a": layers.Dropout(0.5, name="first")(inputs),
        "b": inner(inputs),
        "c": rnn(inputs),
        "d": FoldsTime(name="folds")(inputs),
        "e": again(inputs),
        "f": again(inputs),
        "g": layers.SpatialDropout1D(0.5, name="last")(inputs),
    }
    return keras.Model(inputs, outputs)


SITES = {
    "first": "a",
    "inner/deep": "b",
    "rnn/dropout": "c",
    "last": "g",
}


def samples(model, **kwargs):
    predicted = kbd.predict_with_uncertainty(
        model,
        np.ones((2, 3, 40), "float32"),
        5,
        seed=0,
        return_samples=True,
        verbose=0,
        **flat(**kwargs),
    )
    return {key: p.samples for key, p in predicted.items()}


class SelectTest(TestCase):
    @parameterized.parameters(
        (None, "abcdefg"),
        ("first", "a"),
        ("deep", "b"),
        ("inner/deep", "b"),
        ("rnn", "c"),
        ("rnn/dropout", "c"),
        ("again", "ef"),
        ("fi.*", "a"),
        ("inner/.*", "b"),
        (".*", "abcdefg"),
        (re.compile("e/?.*p$"), "b"),
        (re.compile("^(first|last)$"), "ag"),
        (["first", re.compile("last"), "deep"], "abg"),
        (("again",), "ef"),
        (lambda layer: isinstance(layer, layers.SpatialDropout1D), "g"),
        ([lambda layer: layer.name == "first", "rnn"], "ac"),
    )
    def test_chooses(self, selection, expected):
        drawn = samples(masks_as_outputs(), layers=selection)
        noisy = {key for key, value in drawn.items() if np.any(value == 0)}
        self.assertEqual("".join(sorted(noisy)), expected)
        for key in set(drawn) - noisy:
            self.assertAllEqual(drawn[key], np.ones_like(drawn[key]))

    @parameterized.parameters("shared", "independent")
    def test_chosen_noise_is_the_same_as_with_all(self, masks):
        model = masks_as_outputs()
        everything = samples(model, masks=masks)
        self.assertLen(
            {value.tobytes() for value in everything.values()}, len(everything)
        )
        for path, key in SITES.items():
            alone = samples(model, masks=masks, layers=path)
            self.assertAllEqual(alone[key], everything[key])
        together = samples(model, masks=masks, layers=list(SITES))
        for key in SITES.values():
            self.assertAllEqual(together[key], everything[key])

    def test_subclassed_model_keeps_its_noise_too(self):
        class Model(keras.Model):
            def __init__(self):
                super().__init__()
                self.drops = [
                    layers.Dropout(0.5, name=name) for name in ("a", "b", "c")
                ]

            def call(self, x):
                return {drop.name: drop(x) for drop in self.drops}

        model = Model()
        model(np.ones((2, 3, 40), "float32"))
        everything = samples(model)
        for name in "abc":
            self.assertAllEqual(
                samples(model, layers=name)[name], everything[name]
            )

    @parameterized.parameters(
        "nothing",
        "drop(",
        "*",
        "",
        "firs",
        "deep/inner",
        re.compile("nothing"),
        ([],),
        (["first", "nothing"],),
        ([3],),
        3,
        (lambda layer: False,),
        ((),),
    )
    def test_choosing_nothing(self, selection):
        model = masks_as_outputs()
        for look in (
            lambda: samples(model, layers=selection),
            lambda: kbd.stochastic(model, layers=selection),
            lambda: kbd.sample_function(model, 0, layers=selection),
            lambda: kbd.explain(model, layers=selection),
        ):
            with self.assertRaisesRegex(
                SelectionError, "(?s)Expected.*Received"
            ):
                look()

    def test_message_names_what_there_is(self):
        sites = find_sites(masks_as_outputs())
        for path in ("inner/deep", "rnn/dropout", "first"):
            with self.assertRaisesRegex(SelectionError, f"'{path}'"):
                select_sites("nothing", sites)

    def test_order_of_choice_does_not_matter(self):
        sites = find_sites(masks_as_outputs())
        self.assertEqual(
            select_sites(["first", "last"], sites),
            select_sites(["last", "first", "first"], sites),
        )
