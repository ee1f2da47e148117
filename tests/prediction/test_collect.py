# SPDX-License-Identifier: Apache-2.0
"""Sketches of quantiles in bounded memory: fewer rows, or several passes.

Tiles and passes do not change what is computed: the sketch of an element sees
the same samples in the same order. The networks compute sums of few terms that
float32 holds, so that samples are not rounded: quantiles are equal bit for bit.
"""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.prediction.sampling import collect
from keras_bayesdrop.prediction.sampling.passes import Passes
from tests.helpers import flat

ROWS = 11
LEVELS = (0.1, 0.5, 0.9)


def whole_numbers(shape, dtype=None):
    rng = np.random.default_rng(len(shape))
    return rng.integers(-8, 9, shape).astype(dtype or np.float32)


def network(outputs=24):
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(outputs),
        ]
    )
    model.set_weights([whole_numbers((6, outputs)), whole_numbers((outputs,))])
    return model


def two_outputs():
    x = keras.Input((6,))
    dropped = keras.layers.Dropout(0.5)(x)
    few = keras.layers.Dense(2, name="few")(dropped)
    many = keras.layers.Reshape((4, 5), name="many")(
        keras.layers.Dense(20)(dropped)
    )
    model = keras.Model(x, {"few": few, "many": many})
    model.set_weights([whole_numbers(w.shape) for w in model.get_weights()])
    return model


def predict(model, x=None, **arguments):
    settings = {
        "num_samples": 40,
        "seed": 5,
        "verbose": 0,
        "quantiles": LEVELS,
        **arguments,
    }
    x = whole_numbers((ROWS, 6)) if x is None else x
    return kbd.predict_with_uncertainty(model, x, **flat(**settings))


def room_for(monkeypatch, elements, num_samples=40, outputs=1):
    """Leaves room for the sketches of so many elements of each output."""
    size = 4 * min(num_samples, 1024) * elements * outputs
    monkeypatch.setattr(
        "keras_bayesdrop.prediction.sampling.readout.SKETCH_BYTES", size
    )


class Watch:
    """Records how many elements had a sketch at the same time."""

    def __init__(self, monkeypatch):
        self.most = 0
        self.samples = 0
        update = collect.QuantileSketch.update

        def watched(sketch, block):
            self.most = max(self.most, np.size(block[0]))
            self.samples += len(block)
            update(sketch, block)

        monkeypatch.setattr(collect.QuantileSketch, "update", watched)


def assert_same(found, wanted):
    for name in ("quantile_values", "num_samples_used"):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
    # TensorFlow sums samples in another order if there are other rows.
    for name in ("mean", "variance"):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, 2e-6, 1e-6, err_msg=name)


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("num_samples", [40, 1300])
def test_fewer_rows_at_once(monkeypatch, engine, masks, num_samples):
    arguments = {"engine": engine, "masks": masks, "num_samples": num_samples}
    model = network()
    wanted = predict(model, **arguments)
    room_for(monkeypatch, 3 * 24 + 5, num_samples)
    watch = Watch(monkeypatch)
    assert_same(predict(model, **arguments), wanted)
    # Four tiles of three rows, and each sample drawn once.
    assert watch.most == 3 * 24
    assert watch.samples == 4 * num_samples


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("num_samples", [40, 1300])
def test_passes_over_outputs(monkeypatch, masks, num_samples):
    arguments = {"masks": masks, "num_samples": num_samples}
    model = network()
    wanted = predict(model, **arguments)
    room_for(monkeypatch, 10, num_samples)
    watch = Watch(monkeypatch)
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn 3 times"):
        found = predict(model, **arguments)
    assert_same(found, wanted)
    assert watch.most == 10
    assert watch.samples == 3 * ROWS * num_samples


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_passes_stop_rows_where_the_first_did(monkeypatch, masks):
    x = whole_numbers((ROWS, 6)) * np.linspace(0, 2, ROWS)[:, np.newaxis]
    arguments = {
        "x": np.rint(x).astype(np.float32),
        "masks": masks,
        "num_samples": 400,
        "absolute_tolerance": 2.5,
    }
    model = network()
    wanted = predict(model, **arguments)
    assert len(np.unique(wanted.num_samples_used)) > 2
    room_for(monkeypatch, 7, 400)
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn 4 times"):
        assert_same(predict(model, **arguments), wanted)


def test_passes_of_rows_that_stop_do_not_depend_on_the_moments(monkeypatch):
    """A device may round otherwise when it computes again."""
    model = network()
    arguments = {"num_samples": 400, "absolute_tolerance": 2.5}
    wanted = predict(model, **arguments)
    room_for(monkeypatch, 7, 400)
    met = Passes._stopping
    asked = []

    def done(passes, collectors, drawn, num_rows):
        asked.append(collectors[0].number)
        return met(passes, collectors, drawn, num_rows)

    monkeypatch.setattr(Passes, "_stopping", done)
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn 4 times"):
        assert_same(predict(model, **arguments), wanted)
    assert set(asked) == {0}


def test_several_outputs(monkeypatch):
    model = two_outputs()
    wanted = predict(model)
    room_for(monkeypatch, 8, outputs=2)
    watch = Watch(monkeypatch)
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn 3 times"):
        found = predict(model)
    for name in ("few", "many"):
        assert_same(found[name], wanted[name])
    assert watch.most == 8


def test_outputs_whose_size_is_known_late(monkeypatch):
    model = keras.Sequential(
        [keras.Input((None, 3)), keras.layers.Dropout(0.5)]
    )
    x = whole_numbers((4, 5, 3))
    wanted = predict(model, x)
    room_for(monkeypatch, 16)
    watch = Watch(monkeypatch)
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn 4 times"):
        assert_same(predict(model, x), wanted)
    assert watch.most == 16


def test_batch_size_buys_memory(monkeypatch):
    model = network()
    room_for(monkeypatch, 1)
    watch = Watch(monkeypatch)
    # A forward pass takes 6 + 24 numbers a row, a sketch 40 an output.
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn"):
        predict(model, batch_size=8)
    assert watch.most == 8 * 30 // 40
    watch.most = 0
    predict(model, batch_size=64)
    assert watch.most == 24 * (64 * 30 // 40 // 24)


def test_progress_counts_all_passes(monkeypatch):
    room_for(monkeypatch, 10)
    targets, steps = [], []

    class Bar:
        def __init__(self, target, **arguments):
            targets.append(target)

        def update(self, step, finalize):
            steps.append(step)

    monkeypatch.setattr(keras.utils, "Progbar", Bar)
    with pytest.warns(kbd.errors.BayesdropWarning, match="drawn 3 times"):
        predict(network(), verbose=1)
    assert targets == [max(steps)]
