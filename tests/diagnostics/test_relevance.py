# SPDX-License-Identifier: Apache-2.0
"""The learned scales of a model, and what they tell."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop import deterministic
from keras_bayesdrop.diagnostics import relevance
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import BayesianConv2D
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.regularizers import ADD
from keras_bayesdrop.regularizers import ARD
from keras_bayesdrop.regularizers import ARDADD

PRIORS = {
    "ard": ARD("half_cauchy", 50),
    "add": ADD("inverse_gamma", 50),
    "both": ARDADD("inverse_gamma", "half_cauchy", 50),
}


def make_model():
    """Scales of all kinds of weights, and weights without scales."""
    inner = keras.Sequential(
        [
            keras.Input((6, 5, 2)),
            BayesianConv2D(3, 2, 50, scales="variable", name="conv"),
            keras.layers.Conv2D(
                4, 2, kernel_regularizer=PRIORS["both"], name="map"
            ),
        ],
        name="inner",
    )
    tokens = keras.Input((7,), name="tokens")
    image = keras.Input((6, 5, 2), name="image")
    words = keras.layers.Embedding(
        9, 3, embeddings_regularizer=PRIORS["add"], name="words"
    )(tokens)
    steps = keras.layers.LSTM(2, kernel_regularizer=PRIORS["ard"], name="lstm")(
        words
    )
    h = keras.layers.Flatten()(inner(image))
    h = keras.layers.Concatenate()([h, steps])
    h = BayesianDense(3, 50, structure=None, name="plain")(h)
    h = keras.layers.Dense(2, kernel_regularizer="l2", name="other")(h)
    outputs = BayesianDense(1, 50, structure="ard_add", name="last")(h)
    return keras.Model([tokens, image], outputs, name="net")


def test_scales_of_every_layer():
    model = make_model()
    inner = model.get_layer("inner")
    conv = inner.get_layer("conv")
    conv.row_scales.assign([0.25, 0.5])
    report = relevance(model)
    # Keras puts the two branches in an order of its own.
    assert [(each.path, each.layer) for each in report.layers] == [
        ("inner/conv", "BayesianConv2D"),
        ("inner/map", "Conv2D"),
        ("words/embeddings", "Embedding"),
        ("lstm/lstm_cell", "LSTMCell"),
        ("last", "BayesianDense"),
    ]
    np.testing.assert_array_equal(report["inner/conv"].rows, [0.25, 0.5])
    assert report["inner/conv"].matrix is None
    both = PRIORS["both"].scales(inner.get_layer("map").kernel)
    np.testing.assert_array_equal(report["inner/map"].rows, both.rows)
    assert report["inner/map"].rows.shape == (3,)
    assert report["inner/map"].matrix == both.matrix
    assert report["words/embeddings"].rows is None
    cell = model.get_layer("lstm").cell
    np.testing.assert_array_equal(
        report["lstm/lstm_cell"].rows, PRIORS["ard"].scales(cell.kernel).rows
    )
    last = model.get_layer("last").learned_scales()
    np.testing.assert_array_equal(report["last"].rows, last.rows)
    assert isinstance(report["last"].matrix, float)


def test_table():
    model = make_model()
    model.get_layer("inner").get_layer("conv").row_scales.assign([0.25, 0.75])
    report = relevance(model)
    assert repr(report) == str(report)
    assert report._repr_html_().count("<tr>") == 6
    assert [layer.path for layer in report.layers] == [
        "inner/conv",
        "inner/map",
        "words/embeddings",
        "lstm/lstm_cell",
        "last",
    ]
    lines = str(report).splitlines()
    assert lines[0] == "Model `net`, prior scales of weights"
    rows = [line.split() for line in lines[2:]]
    assert rows[0] == [
        "layer", "class", "rows", "least", "median", "most", "matrix"
    ]  # fmt: skip
    words = f"{report['words/embeddings'].matrix:.3g}"
    assert rows[4] == ["words/embeddings", "Embedding", *"----", words]
    assert rows[2] == [
        "inner/conv", "BayesianConv2D", "2", "0.25", "0.5", "0.75", "-"
    ]  # fmt: skip
    assert len(rows) == 7


def test_a_shared_layer_stands_once_and_views_are_looked_through():
    layer = BayesianDense(3, 50, name="shared")
    x = keras.Input((3,))
    inner = keras.Sequential([keras.Input((3,)), layer], name="inner")
    model = keras.Model(x, inner(layer(x)))
    assert [each.path for each in relevance(model).layers] == ["shared"]
    view = deterministic(model)
    np.testing.assert_array_equal(
        relevance(view)["shared"].rows, relevance(model)["shared"].rows
    )


def test_models_of_any_kind():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.around = keras.layers.TimeDistributed(
                BayesianDense(2, 50, name="inside"), name="each"
            )

        def call(self, inputs):
            return self.around(inputs)

    model = Own()
    model(np.ones((1, 4, 3)))
    assert relevance(model)["each/inside"].rows.shape == (3,)


def test_nothing_found():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    report = relevance(model)
    assert report.layers == ()
    assert str(report).endswith("No layer with learned scales.")
    with pytest.raises(BayesdropError, match=r"Expected one of .*Received"):
        report["dense"]
    with pytest.raises(BayesdropError, match=r"`model`. Expected"):
        relevance(3)


def test_ard_finds_the_informative_inputs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 10)).astype("float32")
    y = x[:, 2:3] - np.tanh(2 * x[:, 7:8])
    y = (y + 0.1 * rng.normal(size=y.shape)).astype("float32")
    units = {"likelihood": GaussianLikelihood(100.0)}
    model = keras.Sequential(
        [
            keras.Input((10,)),
            BayesianDense(
                16,
                200,
                structure="ard",
                scale_prior="half_cauchy",
                activation="tanh",
                **units,
            ),
            BayesianDense(
                1, 200, structure="add", scale_prior="half_cauchy", **units
            ),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.02),
        "mse",
        jit_compile=False,
        steps_per_execution=100,
    )
    data = tf.data.Dataset.from_tensors((x, y)).repeat()
    model.fit(data, steps_per_epoch=1000, shuffle=False, verbose=0)
    rows = relevance(model).layers[0].rows
    informative = np.isin(np.arange(10), [2, 7])
    assert rows[informative].min() > 5 * rows[~informative].max(), rows
