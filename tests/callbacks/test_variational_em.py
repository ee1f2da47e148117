# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest

from keras_bayesdrop.callbacks import VariationalEM
from keras_bayesdrop.diagnostics import relevance
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import BayesianDense

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
Y = X[:, :1]


class Record(keras.callbacks.Callback):
    """Notes the scale with which every batch begins, 1 if there is none."""

    def __init__(self, look):
        super().__init__()
        self.look = look
        self.scales = []

    def on_train_batch_begin(self, batch, logs=None):
        built = self.model.built
        self.scales.append(self.look(self.model) if built else 1.0)


def make_model(scales, rate=0.1, **kwargs):
    """A layer, and one inside another model; the same for each call."""
    keras.utils.set_random_seed(3)
    inner = keras.Sequential(
        [
            keras.Input((3,)),
            BayesianDense(
                4, 8, structure="ard_add", scales=scales, name="nested"
            ),
        ],
        name="inner",
    )
    inputs = keras.Input((3,))
    last = BayesianDense(
        1,
        8,
        structure="add",
        scale_prior="half_cauchy",
        scales=scales,
        seed=1,
        name="last",
    )
    model = keras.Model(inputs, last(inner(inputs)))
    optimizer = keras.optimizers.SGD(rate)
    model.compile(optimizer, "mse", jit_compile=False, **kwargs)
    return model


def fit(model, epochs=2, callbacks=(), **kwargs):
    """Fits with two batches an epoch, always in the same order."""
    return model.fit(
        X,
        Y,
        batch_size=4,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
        **kwargs,
    ).history


def assert_same_scales(one, other):
    pairs = zip(relevance(one).layers, relevance(other).layers, strict=True)
    for mine, its in pairs:
        assert mine.path == its.path
        if mine.rows is not None:
            np.testing.assert_allclose(mine.rows, its.rows, rtol=1e-5)
        np.testing.assert_allclose(mine.matrix, its.matrix, rtol=1e-5)


@pytest.mark.parametrize("every", ["batch", "epoch"])
def test_on_fixed_weights_it_finds_the_in_line_scales(every):
    model, inline = make_model("variable", 0.0), make_model("inline", 0.0)
    # Steps of size zero: nothing but the scales can change.
    fit(model, callbacks=[VariationalEM(every)])
    assert_same_scales(model, inline)
    assert not np.any(relevance(model)["inner/nested"].rows == 1.0)
    losses = [each.evaluate(X, Y, verbose=0) for each in (model, inline)]
    np.testing.assert_allclose(*losses, rtol=1e-6)


def test_every_batch_is_training_with_in_line_scales():
    model, inline = make_model("variable"), make_model("inline")
    histories = (
        fit(model, 3, [VariationalEM("batch")])["loss"],
        fit(inline, 3)["loss"],
    )
    # Float32, and six steps in which errors can grow.
    np.testing.assert_allclose(*histories, rtol=1e-5)
    assert_same_scales(model, inline)


def test_when_the_scales_change():
    recorded = {}
    for every in ("batch", "epoch"):
        model = make_model("variable")
        record = Record(
            lambda model: float(model.get_layer("last").matrix_scale)
        )
        fit(model, 2, [VariationalEM(every), record])
        recorded[every] = record.scales
    first, second, third, fourth = recorded["epoch"]
    assert first == second != third == fourth
    assert len(set(recorded["batch"])) == 4
    # The first M-step is before the first batch.
    assert recorded["batch"][0] == first != 1.0


def test_goes_on_where_it_stopped():
    whole, parts = make_model("variable"), make_model("variable")
    fit(whole, 4, [VariationalEM()])
    fit(parts, 2, [VariationalEM()])
    fit(parts, 4, [VariationalEM()], initial_epoch=2)
    for mine, its in zip(whole.get_weights(), parts.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_layers_without_variables_are_left_alone():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            BayesianDense(4, 8),
            BayesianDense(4, 8, structure=None),
            BayesianDense(1, 8, scales="variable", name="held"),
        ]
    )
    model.compile("sgd", "mse", jit_compile=False)
    fit(model, 1, [VariationalEM()])
    assert not np.any(model.get_layer("held").row_scales.numpy() == 1.0)


@pytest.mark.parametrize("every", ["batch", "epoch"])
def test_a_model_that_the_first_batch_builds(every):
    model = keras.Sequential([BayesianDense(1, 8, scales="variable")])
    model.compile("sgd", "mse", jit_compile=False)
    record = Record(lambda model: float(model.layers[0].row_scales[0]))
    fit(model, 2, [VariationalEM(every), record])
    changes = np.flatnonzero(np.diff(record.scales))
    assert list(changes) == ([0, 1, 2] if every == "batch" else [1])


@pytest.mark.parametrize("scales", ["inline", None])
def test_nothing_to_update(scales):
    last = keras.layers.Dense(1)
    if scales is not None:
        last = BayesianDense(1, 8, scales=scales)
    model = keras.Sequential([keras.Input((3,)), last])
    model.compile("sgd", "mse", jit_compile=False)
    with pytest.raises(
        BayesdropError, match=r"no scales to update.*Expected.*Received"
    ):
        fit(model, 1, [VariationalEM()])


def test_bad_argument():
    with pytest.raises(
        BayesdropError, match=r"`every`. Expected .* Received: every='step'"
    ):
        VariationalEM("step")
