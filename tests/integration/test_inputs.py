# SPDX-License-Identifier: Apache-2.0
"""Inputs of every form that `model.predict` takes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from tests import zoo
from tests.helpers import flat
from tests.integration.samples import first_sample
from tests.integration.samples import settings


def dropout_behind(inputs):
    """A model whose first sample shows which input went where."""
    x = keras.layers.Concatenate()(inputs)
    return keras.layers.Dropout(0.5, noise_shape=(None, 1))(x)


def test_dict_for_a_model_of_listed_inputs():
    a = keras.Input((3,), name="zebra")
    b = keras.Input((2,), name="ant")
    model = keras.Model([a, b], dropout_behind([a, b]))
    x = {"zebra": zoo.numbers(3), "ant": zoo.numbers(2, seed=1)}
    listed = [x["zebra"], x["ant"]]
    np.testing.assert_array_equal(
        model.predict(x, verbose=0), model.predict(listed, verbose=0)
    )
    np.testing.assert_array_equal(
        first_sample(model, x), first_sample(model, listed)
    )


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_dict_with_more_than_the_model_takes():
    """Keras takes the first arrays in the order of their names: `note`!"""
    a = keras.Input((3,), name="zebra")
    b = keras.Input((2,), name="ant")
    model = keras.Model({"zebra": a, "ant": b}, dropout_behind([a, b]))
    x = {"zebra": zoo.numbers(3), "ant": zoo.numbers(2, seed=1)}
    for features in (3, 7):
        more = {**x, "note": zoo.numbers(features, seed=2)}
        # Refused, or right: never an array that nobody asked for.
        try:
            sample = first_sample(model, more)
        except kbd.BayesdropError as error:
            assert "Expected" in str(error)
        else:
            np.testing.assert_array_equal(sample, first_sample(model, x))


class Rows(keras.utils.PyDataset):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return (self.x[2 * index : 2 * index + 2],)


FEEDS = {
    "tensor": tf.constant,
    "dataset": lambda x: tf.data.Dataset.from_tensor_slices(x).batch(2),
    "dataset_with_targets": lambda x: tf.data.Dataset.from_tensor_slices(
        (x, x)
    ).batch(3),
    "generator": lambda x: (x[i : i + 2] for i in range(0, len(x), 2)),
    "generator_with_targets": lambda x: (
        (x[i : i + 2],) * 2 for i in range(0, len(x), 2)
    ),
    "py_dataset": Rows,
    "float64": lambda x: x.astype("float64"),
    "list_of_one": lambda x: [x],
}


@pytest.mark.parametrize(
    ("kind", "feed"),
    [
        *(("functional", feed) for feed in FEEDS),
        # Its `call` takes no list.
        *(("subclassed", feed) for feed in FEEDS if feed != "list_of_one"),
    ],
)
@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_feeds(kind, feed):
    model, x = zoo.ZOO[kind].build()
    feed = FEEDS[feed]
    for masks in ("shared", "independent"):
        want = kbd.predict_with_uncertainty(
            model, x, **flat(**settings(masks=masks, return_samples=True))
        )
        for batch_size in (None, 1):
            got = kbd.predict_with_uncertainty(
                model,
                feed(x),
                batch_size=batch_size,
                **flat(**settings(masks=masks, return_samples=True)),
            )
            np.testing.assert_allclose(
                got.samples, want.samples, rtol=1e-5, atol=1e-6
            )
