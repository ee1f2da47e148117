# SPDX-License-Identifier: Apache-2.0
"""`UncertaintyMonitor` in `fit`, and the data that it refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.callbacks import UncertaintyMonitor
from tests.callbacks.monitored import SAMPLES
from tests.callbacks.monitored import SEED
from tests.callbacks.monitored import evaluated
from tests.callbacks.monitored import make_data
from tests.callbacks.monitored import make_model
from tests.graph.sites import own_layers
from tests.helpers import TestCase
from tests.helpers import flat


class FitTest(TestCase):
    def test_history_and_later_callbacks_see_the_values(self):
        seen = []

        class Spy(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                seen.append(dict(logs))

        model, data = make_model(), make_data()
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
        x, y = make_data()
        weights = []
        for callbacks in ([], [UncertaintyMonitor((x, y), SAMPLES)]):
            keras.utils.set_random_seed(0)
            model = make_model()
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

        model, data = make_model(), make_data()
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
        model, data = make_model(), make_data()
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
        x, y = make_data()
        model = make_model()
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
        x, y = make_data()
        model = make_model()
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
        x, y = make_data()
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
        data = make_data()
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
        x, y = make_data()
        with self.assertRaises(ValueError):
            UncertaintyMonitor((x, list(y[:, 0])))

    def test_stream_without_rows(self):
        x, y = make_data()
        with self.assertRaisesRegex(ValueError, "empty"):
            evaluated(make_model(), _stream(x[:0], y[:0]))

    def test_targets_that_are_not_finite(self):
        x, y = make_data()
        y[2] = np.nan
        with self.assertRaisesRegex(ValueError, "NaN|finite"):
            evaluated(make_model(), (x, y))

    def test_wrong_features(self):
        x, y = make_data()
        with self.assertRaisesRegex(ValueError, "fit"):
            evaluated(make_model(), (x[:, :3], y))


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
