# SPDX-License-Identifier: Apache-2.0
"""Validation with uncertainty, against a computation from the samples."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.callbacks import UncertaintyMonitor
from tests.graph.sites import own_layers
from tests.helpers import TestCase
from tests.helpers import flat

SEED = 3
SAMPLES = 12


def _data(rows=20):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    return x, x @ np.array([[1.0], [2.0], [0.0], [-1.0]], np.float32)


def _model(outputs=1, activation=None, loss="mse", rate=0.3):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    model.compile(keras.optimizers.SGD(0.05), loss)
    return model


def _evaluated(model, data, **kwargs):
    settings = {"num_samples": SAMPLES, "seed": SEED, **kwargs}
    monitor = UncertaintyMonitor(data, **flat(**settings))
    monitor.set_model(model)
    return monitor.evaluate()


def _samples(model, x, **kwargs):
    """All samples in float64, [samples, rows, outputs]."""
    p = kbd.predict_with_uncertainty(
        model,
        x,
        SAMPLES,
        seed=SEED,
        return_samples=True,
        verbose=0,
        **flat(**kwargs),
    )
    return keras.tree.map_structure(
        lambda part: part.samples.astype(np.float64), p
    )


def _gaussian_nll(samples, y, tau):
    """Gal's test log-likelihood, with its sign turned."""
    squared = ((samples - y) ** 2).sum(axis=-1)
    dims = y.shape[-1]
    return -np.mean(
        scipy.special.logsumexp(-0.5 * tau * squared, axis=0)
        - np.log(len(samples))
        - dims / 2 * np.log(2 * np.pi / tau)
    )


def _ece(confidence, right, bins=15):
    """Expected calibration error, bin by bin."""
    total = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            gap = right[inside].mean() - confidence[inside].mean()
            total += inside.mean() * abs(gap)
    return total


def _expected_classes(p, labels):
    mean = p.mean(axis=0)
    chosen = mean[np.arange(len(labels)), labels]
    right = mean.argmax(axis=-1) == labels
    entropy = -np.sum(scipy.special.xlogy(mean, mean), axis=-1)
    each = -np.sum(scipy.special.xlogy(p, p), axis=-1)
    return {
        "mc_nll": -np.mean(np.log(chosen)),
        "mc_accuracy": right.mean(),
        "mc_ece": _ece(mean.max(axis=-1), right),
        "mutual_information": np.mean(entropy - each.mean(axis=0)),
        "epistemic": p.var(axis=0, ddof=1).mean(),
    }


def _assert_logs(logs, expected, prefix="val_"):
    named = {prefix + key: value for key, value in expected.items()}
    for key, value in named.items():
        assert key in logs, (key, sorted(logs))
        assert isinstance(logs[key], float), key
        np.testing.assert_allclose(
            logs[key], value, rtol=2e-4, atol=1e-6, err_msg=key
        )


class ValuesTest(TestCase):
    def test_regression_with_a_given_precision(self):
        model, (x, y) = _model(), _data()
        for masks in ("shared", "independent"):
            logs = _evaluated(model, (x, y), noise_precision=2.5, masks=masks)
            samples = _samples(model, x, masks=masks)
            _assert_logs(
                logs,
                {
                    "mc_nll": _gaussian_nll(samples, y, 2.5),
                    "mc_rmse": np.sqrt(
                        np.mean((samples.mean(axis=0) - y) ** 2)
                    ),
                    "epistemic": samples.var(axis=0, ddof=1).mean(),
                },
            )
            self.assertEqual(
                set(logs), {"val_mc_nll", "val_mc_rmse", "val_epistemic"}
            )

    def test_regression_finds_the_precision(self):
        model, (x, y) = _model(), _data()
        logs = _evaluated(model, (x, y))
        samples = _samples(model, x)
        tau = logs["val_noise_precision"]
        _assert_logs(logs, {"mc_nll": _gaussian_nll(samples, y, tau)})
        for other in (0.9 * tau, 1.1 * tau):
            self.assertLess(
                logs["val_mc_nll"], _gaussian_nll(samples, y, other)
            )

    def test_classes(self):
        model = _model(3, "softmax", "sparse_categorical_crossentropy")
        x, _ = _data()
        labels = np.arange(20) % 3
        expected = _expected_classes(_samples(model, x), labels)
        for y in (labels, labels[:, None], np.eye(3)[labels]):
            logs = _evaluated(model, (x, y))
            _assert_logs(logs, expected)
            self.assertEqual(set(logs), {f"val_{key}" for key in expected})

    def test_classes_from_logits(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model = _model(3, None, loss)
        x, _ = _data()
        labels = np.arange(20) % 3
        logits = _samples(model, x, head="regression")
        expected = _expected_classes(
            scipy.special.softmax(logits, axis=-1), labels
        )
        _assert_logs(_evaluated(model, (x, labels)), expected)
        uncompiled = keras.models.clone_model(model)
        uncompiled.set_weights(model.get_weights())
        logs = _evaluated(
            uncompiled, (x, labels), head="classification", from_logits=True
        )
        _assert_logs(logs, expected)

    def test_binary(self):
        model = _model(1, "sigmoid", "binary_crossentropy")
        x, y = _data()
        labels = (y > 0).astype(np.float32)
        p = _samples(model, x)[..., 0]
        both = np.stack([1 - p, p], axis=-1)
        expected = _expected_classes(both, labels[:, 0].astype(int))
        for given in (labels, labels[:, 0]):
            logs = _evaluated(model, (x, given))
            _assert_logs(logs, expected)
            self.assertEqual(set(logs), {f"val_{key}" for key in expected})

    def test_chosen_layers(self):
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dropout(0.5, name="one"),
                keras.layers.Dropout(0.5, name="two"),
                keras.layers.Dense(1),
            ]
        )
        x, y = _data()
        samples = _samples(model, x, layers="two")
        _assert_logs(
            _evaluated(model, (x, y), layers="two"),
            {"epistemic": samples.var(axis=0, ddof=1).mean()},
        )


def _two_outputs(structure):
    inputs = keras.Input((4,))
    x = keras.layers.Dropout(0.3)(keras.layers.Dense(8)(inputs))
    number = keras.layers.Dense(1, name="z_number")(x)
    classes = keras.layers.Dense(3, activation="softmax", name="classes")(x)
    losses = {"z_number": "mse", "classes": "sparse_categorical_crossentropy"}
    if structure == "dict":
        model = keras.Model(inputs, {"z_number": number, "classes": classes})
    else:
        model = keras.Model(inputs, [number, classes])
    model.compile("sgd", losses)
    return model


class SeveralOutputsTest(TestCase):
    def setUp(self):
        super().setUp()
        self.x, self.y = _data()
        self.labels = np.arange(20) % 3

    def _check(self, model, y):
        samples = _samples(model, self.x)
        head = [kbd.Regression(noise_precision=1.0), "auto"]
        if isinstance(samples, dict):
            number, classes = samples["z_number"], samples["classes"]
            head = dict(zip(("z_number", "classes"), head, strict=True))
        else:
            number, classes = samples
        logs = _evaluated(model, (self.x, y), head=head)
        expected = _expected_classes(classes, self.labels)
        _assert_logs(logs, expected, "val_classes_")
        expected = {
            "mc_nll": _gaussian_nll(number, self.y, 1.0),
            "mc_rmse": np.sqrt(np.mean((number.mean(axis=0) - self.y) ** 2)),
            "epistemic": number.var(axis=0, ddof=1).mean(),
        }
        _assert_logs(logs, expected, "val_z_number_")
        self.assertEqual(len(logs), 8)

    def test_dict(self):
        self._check(
            _two_outputs("dict"), {"z_number": self.y, "classes": self.labels}
        )

    def test_list(self):
        self._check(_two_outputs("list"), [self.y, self.labels])
        self._check(_two_outputs("list"), (self.y, self.labels))

    def test_targets_by_name_for_listed_outputs(self):
        """Keras' `fit` matches these by name; so must we."""
        model = _two_outputs("list")
        y = {"z_number": self.y, "classes": self.labels}
        model.fit(self.x, y, verbose=0)
        self._check(model, y)

    def test_stream(self):
        model = _two_outputs("dict")
        y = {"z_number": self.y, "classes": self.labels}
        data = tf.data.Dataset.from_tensor_slices((self.x, y)).batch(7)
        whole = _evaluated(model, (self.x, y))
        parts = _evaluated(model, data)
        self.assertEqual(set(whole), set(parts))
        for key in whole:
            self.assertAllClose(whole[key], parts[key], rtol=1e-4, msg=key)


class _Batches(keras.utils.PyDataset):
    def __init__(self, x, y, size):
        super().__init__()
        self.x, self.y, self.size = x, y, size

    def __len__(self):
        return -(-len(self.x) // self.size)

    def __getitem__(self, index):
        part = slice(index * self.size, (index + 1) * self.size)
        return self.x[part], self.y[part]


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("classes", [False, True])
def test_stream_gives_what_arrays_give(classes, masks):
    x, y = _data()
    model = _model()
    if classes:
        model = _model(3, "softmax", "sparse_categorical_crossentropy")
        y = np.arange(20) % 3
    whole = _evaluated(model, (x, y), masks=masks)
    for stream in (
        tf.data.Dataset.from_tensor_slices((x, y)).batch(6),
        tf.data.Dataset.from_tensor_slices((x, y, np.ones(20))).batch(6),
        _Batches(x, y, 7),
    ):
        parts = _evaluated(model, stream, masks=masks)
        assert set(parts) == set(whole)
        for key in whole:
            np.testing.assert_allclose(
                parts[key], whole[key], rtol=1e-4, atol=1e-6, err_msg=key
            )


class FitTest(TestCase):
    def test_history_and_later_callbacks_see_the_values(self):
        seen = []

        class Spy(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                seen.append(dict(logs))

        model, data = _model(), _data()
        monitor = UncertaintyMonitor(data, SAMPLES, seed=SEED)
        history = model.fit(
            *data, epochs=3, verbose=0, callbacks=[monitor, Spy()]
        ).history
        for key in ("val_mc_nll", "val_mc_rmse", "val_epistemic"):
            self.assertEqual(len(history[key]), 3)
            self.assertEqual([logs[key] for logs in seen], history[key])
        # What the last epoch logged is what the model now gives.
        self.assertAllClose(
            history["val_mc_nll"][-1], monitor.evaluate()["val_mc_nll"]
        )
        self.assertNotEqual(history["val_mc_nll"][0], history["val_mc_nll"][2])

    def test_training_is_not_disturbed(self):
        x, y = _data()
        weights = []
        for callbacks in ([], [UncertaintyMonitor((x, y), SAMPLES)]):
            keras.utils.set_random_seed(0)
            model = _model()
            model.fit(x, y, epochs=2, verbose=0, callbacks=callbacks)
            weights.append(model.get_weights())
        for plain, watched in zip(*weights, strict=True):
            self.assertAllEqual(plain, watched)

    def test_every(self):
        calls = []

        class Counted(UncertaintyMonitor):
            def evaluate(self):
                calls.append(1)
                return super().evaluate()

        model, data = _model(), _data()
        monitor = Counted(data, SAMPLES, every=3)
        history = model.fit(*data, epochs=7, verbose=0, callbacks=[monitor])
        values = history.history["val_mc_nll"]
        self.assertEqual(len(calls), 3)
        self.assertEqual(len(values), 7)
        self.assertEqual(values[0], values[2])
        self.assertNotEqual(values[2], values[3])
        self.assertEqual(values[3], values[5])
        self.assertNotEqual(values[5], values[6])

    def test_a_second_training_starts_anew(self):
        model, data = _model(), _data()
        monitor = UncertaintyMonitor(data, SAMPLES, every=5)
        first = model.fit(*data, epochs=2, verbose=0, callbacks=[monitor])
        again = model.fit(
            *data, epochs=4, initial_epoch=2, verbose=0, callbacks=[monitor]
        )
        # Epoch 2 is no multiple of 5, but the first of this training.
        self.assertEqual(len(again.history["val_mc_nll"]), 2)
        self.assertNotEqual(
            again.history["val_mc_nll"][0], first.history["val_mc_nll"][-1]
        )

    def test_early_stopping_restores_the_best_weights(self):
        # The rate of learning is far too high after three epochs, so that the
        # likelihood gets worse again.
        x, y = _data()
        model = _model()
        kept = []

        class Keep(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                kept.append((logs["val_mc_nll"], self.model.get_weights()))

        def rate(epoch, _):
            return 0.05 if epoch < 3 else 30.0

        monitor = UncertaintyMonitor(
            (x, y), SAMPLES, seed=SEED, head=kbd.Regression(noise_precision=1.0)
        )
        stop = keras.callbacks.EarlyStopping(
            "val_mc_nll", mode="min", patience=2, restore_best_weights=True
        )
        schedule = keras.callbacks.LearningRateScheduler(rate)
        model.fit(
            x,
            y,
            epochs=12,
            verbose=0,
            callbacks=[schedule, monitor, Keep(), stop],
        )
        losses = [loss for loss, _ in kept]
        best = int(np.argmin(losses))
        self.assertLess(len(losses), 12)
        self.assertLess(best, len(losses) - 1)
        for actual, wanted in zip(
            model.get_weights(), kept[best][1], strict=True
        ):
            self.assertAllEqual(actual, wanted)
        self.assertAllClose(
            monitor.evaluate()["val_mc_nll"], losses[best], rtol=1e-5
        )

    def test_model_checkpoint_keeps_the_best(self):
        x, y = _data()
        model = _model()
        path = f"{self.get_temp_dir()}/best.keras"
        model.fit(
            x,
            y,
            epochs=2,
            verbose=0,
            callbacks=[
                UncertaintyMonitor((x, y), SAMPLES, seed=SEED),
                keras.callbacks.ModelCheckpoint(
                    path, "val_mc_nll", mode="min", save_best_only=True
                ),
            ],
        )
        self.assertIsInstance(keras.models.load_model(path), keras.Sequential)


def _stream(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


class BadDataTest(TestCase):
    def test_is_named_at_once(self):
        x, y = _data()
        hole = x.copy()
        hole[3, 1] = np.nan
        for word, data in (
            ("validation_data", (x,)),
            ("validation_data", (x, y, y, y)),
            ("length", (x, y[:-1])),
            ("empty", (x[:0], y[:0])),
            ("NaN", (hole, y)),
            ("once", ((x, y) for _ in range(2))),
            ("once", iter(_stream(x, y))),
            ("validation_data", 3.0),
        ):
            with self.assertRaisesRegex(ValueError, word):
                UncertaintyMonitor(data)

    def test_arguments(self):
        data = _data()
        for word, kwargs in (
            ("num_samples", {"num_samples": 1}),
            ("every", {"every": 0}),
            ("masks", {"masks": "common"}),
            ("seed", {"seed": 0.5}),
            ("noise_precision", {"noise_precision": -1.0}),
            ("batch_size", {"batch_size": 0}),
        ):
            with self.assertRaisesRegex(ValueError, word):
                UncertaintyMonitor(data, **flat(**kwargs))

    def test_targets_as_a_list_of_numbers(self):
        x, y = _data()
        with self.assertRaises(ValueError):
            UncertaintyMonitor((x, list(y[:, 0])))

    def test_stream_without_rows(self):
        x, y = _data()
        with self.assertRaisesRegex(ValueError, "empty"):
            _evaluated(_model(), _stream(x[:0], y[:0]))

    def test_targets_that_are_not_finite(self):
        x, y = _data()
        y[2] = np.nan
        with self.assertRaisesRegex(ValueError, "NaN|finite"):
            _evaluated(_model(), (x, y))

    def test_wrong_features(self):
        x, y = _data()
        with self.assertRaisesRegex(ValueError, "fit"):
            _evaluated(_model(), (x[:, :3], y))


def test_hidden_noise_is_refused_before_training():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            own_layers.ByTensorFlow(name="culprit"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    before = model.get_weights()
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    monitor = kbd.callbacks.UncertaintyMonitor((x, y), 4)
    with pytest.raises(kbd.errors.HiddenNoiseError, match="culprit"):
        model.fit(x, y, callbacks=[monitor], verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    allowed = kbd.callbacks.UncertaintyMonitor(
        (x, y), 4, allow_hidden_noise=True
    )
    with pytest.warns(kbd.BayesdropWarning, match="culprit"):
        history = model.fit(x, y, callbacks=[allowed], verbose=0).history
    assert "val_mc_rmse" in history
