# SPDX-License-Identifier: Apache-2.0
"""`UncertaintyMonitor` logs what a computation from the samples gives."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.batches import Batches
from tests.callbacks.monitored import assert_logs
from tests.callbacks.monitored import evaluated
from tests.callbacks.monitored import expected_classes
from tests.callbacks.monitored import gaussian_nll
from tests.callbacks.monitored import make_data
from tests.callbacks.monitored import make_model
from tests.callbacks.monitored import samples_of
from tests.helpers import TestCase


class ValuesTest(TestCase):
    def test_regression_with_a_given_precision(self):
        model, (x, y) = make_model(), make_data()
        for masks in ("shared", "independent"):
            logs = evaluated(model, (x, y), noise_precision=2.5, masks=masks)
            samples = samples_of(model, x, masks=masks)
            assert_logs(
                logs,
                {
                    "mc_nll": gaussian_nll(samples, y, 2.5),
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
        model, (x, y) = make_model(), make_data()
        logs = evaluated(model, (x, y))
        samples = samples_of(model, x)
        tau = logs["val_noise_precision"]
        assert_logs(logs, {"mc_nll": gaussian_nll(samples, y, tau)})
        for other in (0.9 * tau, 1.1 * tau):
            self.assertLess(logs["val_mc_nll"], gaussian_nll(samples, y, other))

    def test_classes(self):
        model = make_model(3, "softmax", "sparse_categorical_crossentropy")
        x, _ = make_data()
        labels = np.arange(20) % 3
        expected = expected_classes(samples_of(model, x), labels)
        for y in (labels, labels[:, None], np.eye(3)[labels]):
            logs = evaluated(model, (x, y))
            assert_logs(logs, expected)
            self.assertEqual(set(logs), {f"val_{key}" for key in expected})

    def test_classes_from_logits(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model = make_model(3, None, loss)
        x, _ = make_data()
        labels = np.arange(20) % 3
        logits = samples_of(model, x, head="regression")
        expected = expected_classes(
            scipy.special.softmax(logits, axis=-1), labels
        )
        assert_logs(evaluated(model, (x, labels)), expected)
        uncompiled = keras.models.clone_model(model)
        uncompiled.set_weights(model.get_weights())
        logs = evaluated(
            uncompiled, (x, labels), head="classification", from_logits=True
        )
        assert_logs(logs, expected)

    def test_binary(self):
        model = make_model(1, "sigmoid", "binary_crossentropy")
        x, y = make_data()
        labels = (y > 0).astype(np.float32)
        p = samples_of(model, x)[..., 0]
        both = np.stack([1 - p, p], axis=-1)
        expected = expected_classes(both, labels[:, 0].astype(int))
        for targets in (labels, labels[:, 0]):
            logs = evaluated(model, (x, targets))
            assert_logs(logs, expected)
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
        x, y = make_data()
        samples = samples_of(model, x, layers="two")
        assert_logs(
            evaluated(model, (x, y), layers="two"),
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
        self.x, self.y = make_data()
        self.labels = np.arange(20) % 3

    def _check(self, model, y):
        samples = samples_of(model, self.x)
        head = [kbd.Regression(noise_precision=1.0), "auto"]
        if isinstance(samples, dict):
            number, classes = samples["z_number"], samples["classes"]
            head = dict(zip(("z_number", "classes"), head, strict=True))
        else:
            number, classes = samples
        logs = evaluated(model, (self.x, y), head=head)
        expected = expected_classes(classes, self.labels)
        assert_logs(logs, expected, "val_classes_")
        expected = {
            "mc_nll": gaussian_nll(number, self.y, 1.0),
            "mc_rmse": np.sqrt(np.mean((number.mean(axis=0) - self.y) ** 2)),
            "epistemic": number.var(axis=0, ddof=1).mean(),
        }
        assert_logs(logs, expected, "val_z_number_")
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
        whole = evaluated(model, (self.x, y))
        parts = evaluated(model, data)
        self.assertEqual(set(whole), set(parts))
        for key in whole:
            self.assertAllClose(whole[key], parts[key], rtol=1e-4, msg=key)


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("classes", [False, True])
def test_stream_gives_what_arrays_give(classes, masks):
    x, y = make_data()
    model = make_model()
    if classes:
        model = make_model(3, "softmax", "sparse_categorical_crossentropy")
        y = np.arange(20) % 3
    whole = evaluated(model, (x, y), masks=masks)
    for stream in (
        tf.data.Dataset.from_tensor_slices((x, y)).batch(6),
        tf.data.Dataset.from_tensor_slices((x, y, np.ones(20))).batch(6),
        Batches(x, y, 7),
    ):
        parts = evaluated(model, stream, masks=masks)
        assert set(parts) == set(whole)
        for key in whole:
            np.testing.assert_allclose(
                parts[key], whole[key], rtol=1e-4, atol=1e-6, err_msg=key
            )
