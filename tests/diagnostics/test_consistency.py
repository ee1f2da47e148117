# SPDX-License-Identifier: Apache-2.0
"""Units of dropout networks, against all masks of small ones, summed up."""

import itertools

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import theory
from keras_bayesdrop.diagnostics import consistency
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.theory.consistency import Consistency

SAMPLES = 8192
RATES = (0.2, 0.5)
NO_BATCHES = tf.data.Dataset.from_tensors((np.zeros((2, 3)),)).take(0)


def inputs(rows=5):
    rng = np.random.default_rng(4)
    return rng.normal(size=(rows, 3)).astype(np.float32)


def network(activation="sigmoid"):
    """Seven units that can be dropped, weights well apart."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(RATES[0]),
            keras.layers.Dense(4, activation=activation, name="hidden"),
            keras.layers.Dropout(RATES[1]),
            keras.layers.Dense(2, activation=activation, name="last"),
        ]
    )
    rng = np.random.default_rng(3)
    model.set_weights(
        [rng.normal(0.0, 1.5, w.shape) for w in model.get_weights()]
    )
    return model


def enumerated(model, x, function):
    """Probabilities [128], and by layer sums [128, rows, units] of all masks.

    The last is what the layers make without noise.
    """
    w1, b1, w2, b2 = (w.astype(np.float64) for w in model.get_weights())

    def run(first, second):
        hidden = (x * first) @ w1 + b1
        return hidden, (function(hidden) * second) @ w2 + b2

    probabilities, sums = [], []
    for bits in itertools.product((0, 1), repeat=7):
        first, second = np.array(bits[:3]), np.array(bits[3:])
        sums.append(run(first / (1 - RATES[0]), second / (1 - RATES[1])))
        probabilities.append(
            np.prod(np.where(first, 1 - RATES[0], RATES[0]))
            * np.prod(np.where(second, 1 - RATES[1], RATES[1]))
        )
    stacked = map(np.stack, zip(*sums, strict=True))
    by_layer = dict(zip(("hidden", "last"), stacked, strict=True))
    plain = dict(zip(("hidden", "last"), run(1.0, 1.0), strict=True))
    return np.array(probabilities), by_layer, plain


def expectation(probabilities, values):
    return np.tensordot(probabilities, values, 1)


def spread(probabilities, values):
    """Standard errors of mean and variance, from exact moments."""
    mean = expectation(probabilities, values)
    variance = expectation(probabilities, (values - mean) ** 2)
    fourth = expectation(probabilities, (values - mean) ** 4)
    n = SAMPLES
    of_variance = (fourth - variance**2 * (n - 3) / (n - 1)) / n
    return np.sqrt(variance / n), np.sqrt(np.maximum(of_variance, 0))


def assert_within(estimate, exact, allowed):
    # float32 is added to what chance allows.
    np.testing.assert_array_less(
        np.abs(estimate - exact), allowed + 2e-6 * (1 + np.abs(exact))
    )


def test_moments_and_nwgm_are_those_of_all_masks():
    model, x = network(), inputs()
    report = consistency(model, x, SAMPLES, seed=1)
    p, sums, plain = enumerated(model, x, scipy.special.expit)
    assert [layer.path for layer in report.layers] == ["hidden", "last"]
    for path in ("hidden", "last"):
        layer = report[path]
        outputs = scipy.special.expit(sums[path])
        mean = expectation(p, outputs)
        variance = expectation(p, (outputs - mean) ** 2)
        error, error_of_variance = spread(p, outputs)
        assert_within(layer.mean, mean, 4 * error)
        assert_within(layer.variance, variance, 4 * error_of_variance)
        fixed = scipy.special.expit(plain[path])
        np.testing.assert_allclose(layer.deterministic, fixed, atol=2e-6)

        # By the definition G / (G + G'), in logarithms. An estimate is the
        # sigmoid of a mean of sums: slope times its error, and |s''| < 0.1.
        above = expectation(p, np.log(outputs))
        below = expectation(p, np.log1p(-outputs))
        nwgm = np.exp(above) / (np.exp(above) + np.exp(below))
        off = 4 * spread(p, sums[path])[0]
        assert_within(layer.nwgm, nwgm, nwgm * (1 - nwgm) * off + 0.05 * off**2)

        # The test can fail: the three differ by more than that allows.
        assert np.max(np.abs(mean - fixed) / error) > 40
        assert np.max(np.abs(mean - nwgm) / error) > 40
        assert_within(layer.deterministic_error, mean - fixed, 4 * error + 2e-6)
        np.testing.assert_array_equal(layer.nwgm_error, layer.mean - layer.nwgm)
        # Balanced draws are more exact than independent ones.
        assert np.all(layer.mc_error < 1.1 * error)
        # Some forty means, each within 5 standard errors; and float32.
        off = np.abs(layer.mean - mean)
        assert np.all(off < 5 * layer.mc_error + 1e-6)
    # Of the first layer W is the NWGM, of the second it is not.
    first = scipy.special.expit(expectation(p, sums["hidden"]))
    np.testing.assert_allclose(
        first, scipy.special.expit(plain["hidden"]), rtol=1e-12
    )
    second = scipy.special.expit(expectation(p, sums["last"]))
    assert np.max(np.abs(second - scipy.special.expit(plain["last"]))) > 0.01


def test_a_linear_network_has_no_error():
    model, x = network(None), inputs()
    report = consistency(model, x, SAMPLES, seed=2)
    p, sums, plain = enumerated(model, x, lambda values: values)
    for layer in report.layers:
        exact = expectation(p, sums[layer.path])
        np.testing.assert_allclose(exact, plain[layer.path], rtol=1e-11)
        error, error_of_variance = spread(p, sums[layer.path])
        assert_within(layer.deterministic_error, 0.0 * exact, 4 * error)
        variance = SAMPLES * error**2
        assert_within(layer.variance, variance, 4 * error_of_variance)
        assert np.all(variance > 0.1)
        assert layer.nwgm is None
        assert layer.nwgm_error is None


def test_masks_are_those_of_predictions():
    model, x = network(), inputs()
    p = kbd.predict_with_uncertainty(
        model, x, 40, seed=7, return_samples=True, verbose=0
    )
    last = consistency(model, x, 40, seed=7)["last"]
    np.testing.assert_allclose(last.mean, p.mean, rtol=1e-5)
    np.testing.assert_allclose(last.variance, p.variance, rtol=1e-4)
    # Logits of float32 outputs have lost some digits.
    nwgm = theory.nwgm(p.samples.astype(np.float64))
    np.testing.assert_allclose(last.nwgm, nwgm, rtol=1e-4, atol=1e-5)
    other = consistency(model, x, 40, seed=8)["last"]
    assert np.max(np.abs(other.mean - last.mean)) > 1e-3
    one = consistency(model, x, 40).seed
    assert one != consistency(model, x, 40).seed


def test_nwgm_of_classes_and_of_saturated_units():
    inside = keras.Input((3,))
    sums = keras.layers.Dense(4, name="sums")(keras.layers.Dropout(0.5)(inside))
    model = keras.Model(
        inside,
        [
            keras.layers.Softmax(name="classes")(sums),
            keras.layers.Activation("sigmoid", name="saturated")(100.0 * sums),
            keras.layers.Activation("tanh", name="other")(sums),
        ],
    )
    report = consistency(model, inputs(), 30, seed=0)
    mean = report["sums"].mean.astype(np.float64)
    np.testing.assert_allclose(
        report["classes"].nwgm, scipy.special.softmax(mean, -1), rtol=1e-5
    )
    # Its outputs round to one; logarithms of their complements are infinite.
    np.testing.assert_allclose(
        report["saturated"].nwgm, scipy.special.expit(100 * mean), atol=2e-4
    )
    assert report["other"].nwgm is None


def silent_and_active_model():
    """Units 0, 0.05, -0.3, 2 and one that follows the input; then noise."""
    model = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(5, name="units"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1, name="last"),
        ],
        name="small",
    )
    model.set_weights(
        [
            np.array([[0.0, 0.0, 0.0, 0.0, 1.0]]),
            np.array([0.0, 0.05, -0.3, 2.0, 0.0]),
            np.ones((5, 1)),
            np.zeros(1),
        ]
    )
    return model


def test_silent_active_and_sparse():
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    report = consistency(silent_and_active_model(), x, 5, seed=0)
    units = report["units"]
    np.testing.assert_array_equal(
        units.silent,
        [[True, True, False, False, True]] * 3
        + [[True, True, False, False, False]],
    )
    assert units.silent_fraction == 2 / 5
    assert units.active_fraction == 2 / 5
    assert units.sparsity == 11 / 20
    # No noise reaches them.
    assert not units.variance.any()
    np.testing.assert_allclose(units.deterministic_error, 0.0, atol=1e-7)
    assert units.dropout_variance == units.ensemble_gap == 0.0
    last = report["last"]
    np.testing.assert_allclose(last.dropout_variance, np.mean(last.variance))
    gap = np.mean(np.abs(last.mean - last.deterministic))
    np.testing.assert_allclose(last.ensemble_gap, gap, rtol=1e-6)
    higher = consistency(silent_and_active_model(), x, 5, seed=0, threshold=0.4)
    assert higher["units"].silent_fraction == 3 / 5


def test_table_and_names():
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    report = consistency(silent_and_active_model(), x, 5, seed=0)
    assert isinstance(report, Consistency)
    lines = str(report).splitlines()
    assert lines[0] == "Model `small`, 5 masks, 4 inputs"
    titles = ["layer", "class", "units", "E", "V", "|E - W|", "|E - NWGM|"]
    titles += ["silent", "active", "sparsity"]
    assert [t.strip() for t in lines[2].split("  ") if t.strip()] == titles
    cells = [cell.strip() for cell in lines[4].split("  ") if cell.strip()]
    shares = ["40.0 %", "40.0 %", "55.0 %"]
    assert cells == ["units", "Dense", "5", "0.4", "0", "0", "-", *shares]
    assert repr(report) == str(report)
    assert report._repr_html_().count("<tr>") == 3
    assert [layer.path for layer in report.layers] == ["units", "last"]
    assert "path='last', layer='Dense', shape=(4, 1)" in repr(report.layers[1])
    with pytest.raises(BayesdropError, match=r"\['units', 'last'\]. Received"):
        report["none"]


def test_layers_of_all_kinds_and_places():
    shared = keras.layers.Dense(3, activation="sigmoid", name="shared")
    inner = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dropout(0.4), shared], name="inner"
    )
    first, second = keras.Input((4, 4, 1)), keras.Input((3,))
    x = keras.layers.Conv2D(2, 3, name="conv")(keras.layers.Dropout(0.3)(first))
    x = keras.layers.ReLU(name="relu")(x)
    x = keras.layers.Dense(3, name="dense")(keras.layers.Flatten()(x))
    x = keras.layers.Add()([x, inner(second)])
    x = keras.layers.BatchNormalization()(shared(x))
    x = kbd.layers.DropConnectDense(
        2, rate=0.5, activation="sigmoid", name="connections"
    )(x)
    model = keras.Model([first, second], x)
    rng = np.random.default_rng(0)
    x = [
        rng.normal(size=(7, *shape)).astype(np.float32)
        for shape in ((4, 4, 1), (3,))
    ]
    before = [np.array(w) for w in model.get_weights()]
    report = consistency(model, x, 20, seed=0)
    shapes = {layer.path: layer.mean.shape for layer in report.layers}
    assert set(shapes) == {
        *("conv", "relu", "dense", "inner/shared", "shared", "connections")
    }
    assert shapes["conv"] == (7, 2, 2, 2)
    for layer in report.layers:
        for array in (layer.mean, layer.variance, layer.deterministic):
            assert array.shape == layer.mean.shape
            assert np.all(np.isfinite(array))
        assert np.any(layer.variance > 0), layer.path
        assert (layer.nwgm is None) == (layer.path in ("conv", "relu", "dense"))
    np.testing.assert_allclose(
        report["connections"].deterministic,
        kbd.deterministic(model)(x),
        rtol=1e-5,
    )
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    # In parts, and as a stream: the same.
    stream = tf.data.Dataset.from_tensor_slices((tuple(x),)).batch(3)
    for again in (
        consistency(model, x, 20, seed=0, batch_size=2),
        consistency(model, stream, 20, seed=0),
    ):
        for layer in report.layers:
            other = again[layer.path]
            for name in ("mean", "variance", "deterministic", "nwgm"):
                value = getattr(layer, name)
                if value is not None:
                    np.testing.assert_allclose(
                        getattr(other, name), value, rtol=1e-4, atol=1e-5
                    )
    # By name, by path, and one that is called twice.
    twice = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5)])
    body = keras.layers.Dense(3, name="body")
    model = keras.Model(second, body(body(twice(second))))
    paths = [each.path for each in consistency(model, x[1], 5).layers]
    assert paths == ["body", "body:2"]
    for layers in ("body:2", ["body:2"]):
        (only,) = consistency(model, x[1], 5, layers=layers).layers
        assert only.path == "body:2"
    assert len(consistency(model, x[1], 5, layers="body").layers) == 2


def test_views_and_half_precision():
    model, x = network(), inputs()
    site = model.layers[2].name
    view = kbd.stochastic(model, layers=site)
    report = consistency(view, x, 10, seed=0)
    assert not report["hidden"].variance.any()
    assert report["last"].variance.any()
    half = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(4, activation="sigmoid", dtype="mixed_float16"),
        ]
    )
    (layer,) = consistency(half, x, 10, seed=0).layers
    assert {layer.mean.dtype, layer.nwgm.dtype} == {np.dtype("float32")}
    # Half precision has eleven bits.
    np.testing.assert_allclose(layer.nwgm, layer.mean, atol=0.2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_samples": 1}, BayesdropError, "of at least 2. Received"),
        ({"num_samples": 2.5}, BayesdropError, "`num_samples`"),
        ({"threshold": 0.0}, BayesdropError, "`threshold`. Expected a posit"),
        ({"seed": "a"}, BayesdropError, "argument `seed`"),
        ({"batch_size": 0}, BayesdropError, "argument `batch_size`"),
        ({"layers": "none"}, SelectionError, r"\['hidden', 'last'\]"),
        ({"layers": []}, SelectionError, r"list of names. Received: .*\[\]"),
        ({"layers": 3}, SelectionError, "Received: layers=3"),
        ({"x": np.zeros((2, 4))}, BayesdropError, "(2, 4)"),
        ({"x": np.zeros((0, 3))}, BayesdropError, "`x` is empty"),
        ({"x": np.full((2, 3), np.nan)}, NonFiniteError, "the inputs `x`"),
        ({"x": NO_BATCHES}, BayesdropError, "a stream without rows"),
        ({"model": 3}, BayesdropError, "Expected a `keras.Model`"),
    ],
)
def test_wrong_arguments(change, error, message):
    arguments = {"model": network(), "x": inputs(), "num_samples": 5, **change}
    with pytest.raises(error, match=message):
        consistency(**arguments)


def test_wrong_models():
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(NothingToSampleError, match="all masks are equal"):
        consistency(plain, inputs(), 5)
    empty = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5)])
    with pytest.raises(BayesdropError, match="no units to measure"):
        consistency(empty, inputs(), 5)

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = keras.layers.Dropout(0.5)

        def call(self, x):
            return self.dropout(x)

    own = Own()
    own(inputs())
    with pytest.raises(PlanError, match="cannot be taken apart"):
        consistency(own, inputs(), 5)
