# SPDX-License-Identifier: Apache-2.0
"""Metrics for `compile`: all batches together give what the functions give."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
from absl.testing import parameterized

from keras_bayesdrop import losses
from keras_bayesdrop import metrics
from keras_bayesdrop.errors import BayesdropError
from tests.helpers import TestCase
from tests.metrics import cases

PROBABILITY_METRICS = (
    (metrics.BrierScore, metrics.brier_score),
    (metrics.ExpectedCalibrationError, metrics.expected_calibration_error),
)
ALL = (
    (metrics.BrierScore, {"from_logits": True}),
    (metrics.ExpectedCalibrationError, {"num_bins": 7, "from_logits": True}),
    (metrics.IntervalCoverage, {"level": 0.8, "noise_precision": 4.0}),
)


def in_batches(metric, y, outputs, weights=None):
    # Batches of 7, 7, ..., and a smaller last one.
    for start in range(0, len(y), 7):
        part = slice(start, start + 7)
        metric.update_state(
            y[part], outputs[part], None if weights is None else weights[part]
        )
    return float(metric.result())


class StreamingTest(TestCase):
    @parameterized.parameters(*PROBABILITY_METRICS)
    def test_batches_of_classes(self, cls, function):
        p, labels = cases.classes(30)
        want = function(labels, p)
        for y in (labels, labels[:, None], np.eye(4)[labels]):
            self.assertAllClose(in_batches(cls(), y, p), want, rtol=1e-5)
            logits = np.log(p) + 3
            result = in_batches(cls(from_logits=True), y, logits)
            self.assertAllClose(result, want, rtol=1e-5)

    @parameterized.parameters(*PROBABILITY_METRICS)
    def test_batches_of_binary_labels(self, cls, function):
        p, labels = cases.binary(30)
        want = function(labels, p)
        logits = scipy.special.logit(p)
        for y in (labels, labels[:, None], labels.astype(bool)):
            for outputs in (p, p[:, None]):
                result = in_batches(cls(), y, outputs)
                self.assertAllClose(result, want, rtol=1e-5)
            result = in_batches(cls(from_logits=True), y, logits[:, None])
            self.assertAllClose(result, want, rtol=1e-5)

    @parameterized.parameters(*PROBABILITY_METRICS)
    def test_weights_repeat_rows(self, cls, function):
        p, labels = cases.classes(30)
        weights = np.arange(30) % 3
        want = function(
            np.repeat(labels, weights), np.repeat(p, weights, axis=0)
        )
        for w in (weights, weights[:, None]):
            result = in_batches(cls(), labels, p, w)
            self.assertAllClose(result, want, rtol=1e-5)
        self.assertEqual(in_batches(cls(), labels, p, 0 * weights), 0.0)

    @parameterized.parameters(*PROBABILITY_METRICS)
    def test_sequences_with_weights_and_masks(self, cls, function):
        p, labels = cases.classes(30)
        p, labels = p.reshape(10, 3, 4), labels.reshape(10, 3)
        self.assertAllClose(
            in_batches(cls(), labels, p), function(labels, p), rtol=1e-5
        )
        mask = np.random.default_rng(0).uniform(size=(10, 3)) < 0.5
        want = function(labels[mask], p[mask])
        result = in_batches(cls(), labels, p, mask)
        self.assertAllClose(result, want, rtol=1e-5)
        outputs = keras.ops.convert_to_tensor(p)
        outputs._keras_mask = keras.ops.convert_to_tensor(mask)
        metric = cls()
        metric.update_state(labels, outputs)
        self.assertAllClose(metric.result(), want, rtol=1e-5)
        # A weight for each row holds for all its steps.
        rows = np.arange(10) % 2
        want = function(labels[rows == 1], p[rows == 1])
        result = in_batches(cls(), labels, p, rows)
        self.assertAllClose(result, want, rtol=1e-5)

    def test_bins(self):
        rng = np.random.default_rng(0)
        p = rng.uniform(size=100)
        y = rng.uniform(size=100) < p
        for bins in (1, 4, 15):
            metric = metrics.ExpectedCalibrationError(bins)
            want = metrics.expected_calibration_error(y, p, bins)
            self.assertAllClose(in_batches(metric, y, p), want, rtol=1e-5)
        # An edge belongs to the bin below, as in the function.
        metric = metrics.ExpectedCalibrationError(4)
        metric.update_state([1, 0], [[0.75, 0.25], [0.625, 0.375]])
        self.assertAllClose(metric.result(), (0.75 - 0.375) / 2)

    @parameterized.parameters(0.5, 0.9)
    def test_interval_coverage(self, level):
        rng = np.random.default_rng(0)
        mean, y = rng.normal(size=(2, 40, 2))
        log_variance = rng.normal(size=(40, 2))
        outputs = np.concatenate([mean, log_variance], axis=1)
        for metric, prediction, std in (
            (
                metrics.IntervalCoverage(level),
                outputs,
                np.exp(log_variance / 2),
            ),
            (metrics.IntervalCoverage(level, 0.5), mean, 2**0.5),
        ):
            normal = scipy.stats.norm(mean, std).interval(level)
            want = metrics.interval_coverage(y, normal)
            assert 0 < want < 1
            self.assertAllClose(in_batches(metric, y, prediction), want)
            weights = np.arange(40) % 3
            want = metrics.interval_coverage(
                np.repeat(y, weights, axis=0),
                [np.repeat(end, weights, axis=0) for end in normal],
            )
            metric.reset_state()
            result = in_batches(metric, y, prediction, weights)
            self.assertAllClose(result, want)

    def test_coverage_of_one_output_is_not_broadcast(self):
        metric = metrics.IntervalCoverage(0.9, noise_precision=1.0)
        for y in (np.zeros(3), np.zeros((3, 1))):
            for mean in (np.zeros(3), np.array([[0.0], [0.0], [9.0]])):
                metric.reset_state()
                metric.update_state(y, mean)
                want = np.mean(mean < 1)
                self.assertAllClose(metric.result(), want)

    @parameterized.parameters(*ALL)
    def test_config_and_reset(self, metric_class, arguments):
        metric = metric_class(**arguments)
        config = keras.saving.serialize_keras_object(metric)
        again = keras.saving.deserialize_keras_object(config)
        self.assertIs(type(again), type(metric))
        self.assertEqual(again.get_config(), metric.get_config())
        for name, value in arguments.items():
            self.assertEqual(getattr(again, name), value)
        self.assertEqual(float(again.result()), 0.0)
        again.update_state(np.zeros(3), np.full((3, 1), 0.3))
        value = float(again.result())
        self.assertGreater(value, 0.0)
        again.reset_state()
        self.assertEqual(float(again.result()), 0.0)
        again.update_state(np.zeros(3), np.full((3, 1), 0.3))
        self.assertEqual(float(again.result()), value)

    @parameterized.parameters(*[each for each, _ in PROBABILITY_METRICS])
    def test_less_is_better(self, metric_class):
        # Callbacks with mode="auto" ask the metrics of the model.
        metric = metric_class(name="score")
        model = keras.Sequential([keras.layers.Dense(1, "sigmoid")])
        model.compile("sgd", "binary_crossentropy", metrics=[metric])
        callback = keras.callbacks.EarlyStopping(monitor="score")
        zeros = np.zeros((2, 1))
        model.fit(zeros, zeros, callbacks=[callback], verbose=0)
        self.assertTrue(callback.monitor_op(1.0, 2.0))
        self.assertFalse(callback.monitor_op(2.0, 1.0))

    def test_evaluate_save_and_load(self):
        x, y, model = classifier(jit=False)
        p = scipy.special.softmax(x @ model.get_weights()[0], axis=1)
        weights = np.arange(50) % 2
        path = f"{self.get_temp_dir()}/model.keras"
        for step in ("built", "loaded"):
            result = model.evaluate(
                x, y, 16, 0, sample_weight=weights, return_dict=True
            )
            want = metrics.brier_score(y, p)
            self.assertAllClose(result["brier_score"], want, 0, 1e-5, msg=step)
            want = metrics.expected_calibration_error(y, p, 10)
            self.assertAllClose(result["ece"], want, 0, 1e-5, msg=step)
            want = metrics.brier_score(y[1::2], p[1::2])
            self.assertAllClose(result["weighted"], want, 0, 1e-5, msg=step)
            model.save(path)
            model = keras.models.load_model(path)

    def test_fit_with_xla(self):
        x, y, model = classifier(jit=True)
        p = scipy.special.softmax(x @ model.get_weights()[0], axis=1)
        # At a rate of zero the model stays what it is, batch after batch.
        model.optimizer.learning_rate = 0.0
        history = model.fit(x, y, batch_size=25, epochs=2, verbose=0).history
        want = metrics.brier_score(y, p)
        self.assertAllClose(history["brier_score"], [want] * 2, rtol=1e-5)
        want = metrics.expected_calibration_error(y, p, 10)
        self.assertAllClose(history["ece"], [want] * 2, rtol=1e-4)

    def test_coverage_in_fit(self):
        x = np.linspace(-1, 1, 40, dtype="float32")[:, None]
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
        model.compile(
            keras.optimizers.SGD(0.0),
            losses.HeteroscedasticGaussianNLL(),
            metrics=[metrics.IntervalCoverage(0.5)],
            jit_compile=False,
        )
        history = model.fit(x, x, batch_size=20, verbose=0).history
        mean, log_variance = (x @ model.get_weights()[0]).T
        normal = scipy.stats.norm(mean, np.exp(log_variance / 2))
        want = metrics.interval_coverage(x, normal.interval(0.5))
        assert 0 < want < 1
        self.assertAllClose(history["interval_coverage"], [want])


def classifier(jit):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)).astype("float32")
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, activation="softmax")]
    )
    model.compile(
        "sgd",
        "sparse_categorical_crossentropy",
        metrics=[
            metrics.BrierScore(),
            metrics.ExpectedCalibrationError(10, name="ece"),
        ],
        weighted_metrics=[metrics.BrierScore(name="weighted")],
        jit_compile=jit,
    )
    return x, rng.integers(0, 4, 50), model


def test_bad_arguments():
    with pytest.raises(BayesdropError, match=r"`num_bins`.*num_bins=0"):
        metrics.ExpectedCalibrationError(0)
    with pytest.raises(BayesdropError, match=r"`level`.*level=1.5"):
        metrics.IntervalCoverage(1.5)
    with pytest.raises(BayesdropError, match=r"`noise_precision`.*-1"):
        metrics.IntervalCoverage(noise_precision=-1.0)


@pytest.mark.parametrize(
    ("labels", "outputs"), [((4, 2), (4, 3)), ((3,), (4, 3)), ((4, 1, 1), (4,))]
)
def test_labels_that_do_not_fit(labels, outputs):
    for cls, _ in PROBABILITY_METRICS:
        with pytest.raises(BayesdropError, match=r"do not fit.*y_pred.shape="):
            cls().update_state(np.zeros(labels), np.zeros(outputs))


def test_outputs_that_do_not_fit():
    for metric, outputs in (
        (metrics.IntervalCoverage(), (4, 2)),
        (metrics.IntervalCoverage(noise_precision=1.0), (4, 1)),
    ):
        with pytest.raises(BayesdropError, match=r"outputs for each target.*"):
            metric.update_state(np.zeros((4, 2)), np.zeros(outputs))
