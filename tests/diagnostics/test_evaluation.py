# SPDX-License-Identifier: Apache-2.0
"""`evaluate_with_uncertainty`: its numbers, and the data that it takes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import metrics
from tests.batches import Batches
from tests.diagnostics.evaluated import ROWS
from tests.diagnostics.evaluated import assert_same
from tests.diagnostics.evaluated import classifier
from tests.diagnostics.evaluated import data
from tests.diagnostics.evaluated import evaluate
from tests.diagnostics.evaluated import labels
from tests.diagnostics.evaluated import model
from tests.diagnostics.evaluated import predict
from tests.diagnostics.evaluated import two_outputs


def test_numbers_equal_the_functions():
    network, (x, y) = model(2), data(2)
    head = kbd.Regression(noise_precision=0.5)
    evaluation = evaluate(network, x, y, head=head, level=0.8)
    p = predict(network, x, head=head, return_samples=True)
    for name, value in {
        "root_mean_squared_error": metrics.root_mean_squared_error(y, p),
        "mean_absolute_error": np.mean(np.abs(p.mean - y)),
        "negative_log_likelihood": metrics.negative_log_likelihood(y, p),
        "crps": metrics.crps(y, p),
        "interval_coverage": metrics.interval_coverage(y, p, 0.8),
        "interval_width": metrics.interval_width(p, 0.8),
        "interval_score": metrics.interval_score(y, p, 0.8),
        "miscalibration_area": metrics.miscalibration_area(y, p),
        "sharpness": metrics.sharpness(p),
        "aleatoric": 2.0,
    }.items():
        assert evaluation[name] == pytest.approx(value, rel=1e-6), name
    np.testing.assert_array_equal(evaluation.labels, y)
    np.testing.assert_array_equal(evaluation.prediction.samples, p.samples)


def test_classes_equal_the_functions():
    network, (x, _), y = classifier(), data(), labels()
    p = predict(network, x)
    wrong = p.mean.argmax(-1) != y
    for given in (y, y[:, None], np.eye(3)[y], y.tolist(), [y]):
        evaluation = evaluate(network, x, given)
        for name, value in {
            "accuracy": metrics.accuracy(y, p),
            "negative_log_likelihood": metrics.negative_log_likelihood(y, p),
            "brier_score": metrics.brier_score(y, p),
            "expected_calibration_error": metrics.expected_calibration_error(
                y, p
            ),
            "uncertainty_auroc": metrics.uncertainty_auroc(
                wrong, p.predictive_entropy
            ),
            "aurc": metrics.aurc(wrong, p.predictive_entropy),
            "mutual_information": np.mean(p.mutual_information),
        }.items():
            assert evaluation[name] == pytest.approx(value, rel=1e-6), name
        np.testing.assert_array_equal(evaluation.labels, y)
    # Samples of probabilities are not needed, and not kept.
    assert evaluation.prediction.samples is None


def _generator(x, y, read):
    for begin in range(0, len(x), 25):
        read.append(begin)
        yield x[begin : begin + 25], y[begin : begin + 25]


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("classes", [False, True])
def test_streams_give_what_arrays_give(classes, masks):
    network, (x, y) = model(), data()
    if classes:
        network, y = classifier(), labels()
    method = kbd.Sampling(masks=masks)
    whole = evaluate(network, x, y, method=method)
    read = []
    for stream, batch_size in (
        (tf.data.Dataset.from_tensor_slices((x, y)).batch(7), None),
        (tf.data.Dataset.from_tensor_slices((x, y)).batch(40), 11),
        (Batches(x, y, 13), None),
        (_generator(x, y, read), 10),
    ):
        parts = evaluate(network, stream, method=method, batch_size=batch_size)
        np.testing.assert_array_equal(parts.labels, whole.labels)
        assert_same(parts, whole, rtol=1e-4)
    assert read == [0, 25, 50]  # Once.


def test_steps_stop_the_labels_too():
    network, (x, y) = model(), data()
    few = evaluate(network, x[:20], y[:20])
    assert_same(evaluate(network, x, y, steps=2, batch_size=10), few, 1e-4)
    stream = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)
    assert_same(evaluate(network, stream, steps=2), few, 1e-4)


@pytest.mark.parametrize("structure", ["dict", "list"])
def test_several_outputs(structure):
    network, (x, price), kind = two_outputs(structure), data(), labels()
    named = {"price": price, "kind": kind}
    p = predict(network, x, return_samples=True)
    forms = [named] if structure == "dict" else [named, [price, kind]]
    stream = tf.data.Dataset.from_tensor_slices((x, named)).batch(16)
    for arguments in (*((x, y) for y in forms), (stream,)):
        evaluations = evaluate(network, *arguments)
        if structure == "dict":
            assert set(evaluations) == {"price", "kind"}
            number, classes = evaluations["price"], evaluations["kind"]
            p_number, p_classes = p["price"], p["kind"]
        else:
            (number, classes), (p_number, p_classes) = evaluations, p
        assert number["crps"] == pytest.approx(
            metrics.crps(price, p_number), rel=1e-5
        )
        assert classes["accuracy"] == metrics.accuracy(kind, p_classes)


def test_ensemble():
    (x, y), networks = data(), [model(seed=0), model(seed=1)]
    evaluation = evaluate(networks, x, y)
    p = predict(networks, x, return_samples=True)
    assert evaluation["crps"] == pytest.approx(metrics.crps(y, p), rel=1e-6)
    np.testing.assert_array_equal(evaluation.prediction.between, p.between)


def test_learned_noise():
    network, (x, y) = model(2), data()
    evaluation = evaluate(network, x, y, head="heteroscedastic")
    p = predict(network, x, head="heteroscedastic", return_samples=True)
    assert evaluation["negative_log_likelihood"] == pytest.approx(
        metrics.negative_log_likelihood(y, p), rel=1e-6
    )
    assert evaluation["aleatoric"] == pytest.approx(p.noise_variance.mean())
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dropout(0.4)(inputs)
    outputs = [keras.layers.Dense(1, name=n)(hidden) for n in ("m", "s")]
    pair = keras.Model(inputs, outputs)
    head = kbd.Heteroscedastic(mean="m", log_variance="s")
    alone = evaluate(pair, x, y, head=head)
    for form in ([y], {"m": y}, [y, 0 * y], {"m": y, "s": 0 * y}):
        assert_same(evaluate(pair, x, form, head=head), alone)


def test_methods_without_samples():
    network, (x, y) = model(), data()
    head = kbd.Regression(noise_precision=1.0)
    moments = evaluate(network, x, y, method="moments", head=head)
    p = predict(network, x, method="moments", head=head)
    assert moments["negative_log_likelihood"] == pytest.approx(
        metrics.negative_log_likelihood(y, p)
    )
    method = kbd.Sampling(tolerance=0.5)
    early = evaluate(network, x, y, method=method, head=head)
    assert "negative_log_likelihood" in early.undefined
    assert early.prediction.samples is None
    thrifty = evaluate(network, x, y, head=head, return_samples=False)
    assert thrifty.prediction.samples is None


def test_options_of_the_prediction_are_passed_on(tmp_path):
    network, (x, y) = model(), data()
    seen = []

    class Spy(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            seen.append(batch)

    evaluation = evaluate(
        network,
        x,
        y,
        quantiles=[0.5],
        return_samples=tmp_path / "samples.npy",
        first_row=5,
        batch_size=20,
        callbacks=[Spy()],
    )
    assert evaluation.prediction.quantile_levels == (0.5,)
    assert (tmp_path / "samples.npy").is_file()
    assert len(seen) == 3


def test_intervals_are_the_same_in_every_call():
    network, (x, y) = model(), data()
    first, again = evaluate(network, x, y), evaluate(network, x, y)
    assert_same(first, again)
    for estimate in first.estimates.values():
        assert estimate.lower <= estimate.upper
    wide = evaluate(network, x, y, confidence=0.99, num_resamples=400)
    narrow = evaluate(network, x, y, confidence=0.5, num_resamples=400)
    for name in first.estimates:
        inner, outer = narrow.estimates[name], wide.estimates[name]
        assert outer.upper - outer.lower >= inner.upper - inner.lower, name
    none = evaluate(network, x, y, num_resamples=0)
    assert all(np.isnan(e.lower) for e in none.estimates.values())
    assert {n: e.value for n, e in none.estimates.items()} == {
        n: e.value for n, e in first.estimates.items()
    }


def test_the_model_runs_once_and_is_not_changed():
    network, (x, y) = model(), data()
    before = network.get_weights()
    calls = []
    evaluate(network, _generator(x, y, calls))
    assert len(calls) == 3
    for old, new in zip(before, network.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_rows_are_as_many_as_labels():
    network, (x, y) = model(), data()
    assert len(evaluate(network, x, y).labels) == ROWS
