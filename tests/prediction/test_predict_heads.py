# SPDX-License-Identifier: Apache-2.0
"""Heads that a prediction detects, and models with several outputs."""

import collections

import keras
import numpy as np

import keras_bayesdrop as kbd
from tests.helpers import TestCase
from tests.prediction.small_model import SEED
from tests.prediction.small_model import inputs_of
from tests.prediction.small_model import predict
from tests.prediction.small_model import small_model


class TaskTest(TestCase):
    def _task(self, model, **kwargs):
        p = predict(model, inputs_of(), **kwargs)
        return keras.tree.map_structure(lambda part: part.task, p)

    def test_of_the_last_activation(self):
        self.assertEqual(self._task(small_model(1)), "regression")
        self.assertEqual(self._task(small_model(1, "relu")), "regression")
        self.assertEqual(
            self._task(small_model(3, "softmax")), "classification"
        )
        self.assertEqual(self._task(small_model(1, "sigmoid")), "binary")
        self.assertEqual(self._task(small_model(3, "sigmoid")), "binary")

    def test_of_a_layer_or_function_behind(self):
        for layer, task in (
            (keras.layers.Softmax(), "classification"),
            (keras.layers.Activation("softmax"), "classification"),
            (keras.layers.Activation("sigmoid"), "binary"),
            (keras.layers.Activation(keras.ops.sigmoid), "binary"),
            (keras.layers.Activation("tanh"), "regression"),
        ):
            model = small_model(3)
            model.add(layer)
            self.assertEqual(self._task(model), task)
        inputs = keras.Input((4,))
        x = keras.layers.Dropout(0.5)(inputs)
        model = keras.Model(inputs, keras.ops.softmax(x))
        self.assertEqual(self._task(model), "classification")

    def test_through_a_nested_model_and_a_reshape(self):
        inputs = keras.Input((4,))
        nested = small_model(6, "softmax")(inputs)
        self.assertEqual(
            self._task(keras.Model(inputs, nested)), "classification"
        )
        reshaped = keras.layers.Reshape((6,))(nested)
        self.assertEqual(
            self._task(keras.Model(inputs, reshaped)), "classification"
        )

    def test_softmax_over_another_axis_is_no_distribution_over_the_last(self):
        inputs = keras.Input((3, 4))
        x = keras.layers.Dropout(0.5)(inputs)
        model = keras.Model(inputs, keras.layers.Softmax(axis=1)(x))
        x = np.random.default_rng(0).normal(size=(2, 3, 4))
        p = predict(model, x.astype(np.float32))
        self.assertEqual(p.task, "regression")

    def test_logits_of_the_compiled_loss(self):
        losses = keras.losses
        for loss, outputs, task, link in (
            (
                losses.SparseCategoricalCrossentropy(from_logits=True),
                3,
                "classification",
                keras.ops.softmax,
            ),
            (
                losses.CategoricalCrossentropy(from_logits=True),
                3,
                "classification",
                keras.ops.softmax,
            ),
            (
                losses.BinaryCrossentropy(from_logits=True),
                1,
                "binary",
                keras.ops.sigmoid,
            ),
        ):
            model = small_model(outputs)
            raw = predict(model, inputs_of(), return_samples=True)
            model.compile("sgd", loss)
            p = predict(model, inputs_of(), return_samples=True)
            self.assertEqual(raw.task, "regression")
            self.assertEqual(p.task, task)
            self.assertAllClose(p.samples, np.asarray(link(raw.samples)))
            self.assertAllClose(p.mean, p.samples.mean(axis=0))

    def test_loss_on_probabilities_makes_no_number_a_probability(self):
        model = small_model(3)
        model.compile("sgd", "mse")
        self.assertEqual(self._task(model), "regression")
        model = small_model(3, "softmax")
        model.compile("sgd", "mse")
        self.assertEqual(self._task(model), "classification")

    def test_loss_tells_a_subclassed_model(self):
        class Own(keras.Model):
            def __init__(self, activation):
                super().__init__()
                self.drop = keras.layers.Dropout(0.5)
                self.dense = keras.layers.Dense(3, activation=activation)

            def call(self, inputs):
                return self.dense(self.drop(inputs))

        for activation, loss, task in (
            (None, "mse", "regression"),
            ("softmax", "sparse_categorical_crossentropy", "classification"),
            (
                "softmax",
                keras.losses.CategoricalCrossentropy(),
                "classification",
            ),
            ("sigmoid", keras.losses.BinaryCrossentropy(), "binary"),
            (
                None,
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                "classification",
            ),
        ):
            model = Own(activation)
            model(inputs_of())
            model.compile("sgd", loss)
            self.assertEqual(self._task(model), task)

    def test_asked_for(self):
        model = small_model(3)
        p = predict(model, inputs_of(), head="classification", from_logits=True)
        self.assertEqual(p.task, "classification")
        self.assertAllClose(p.mean.sum(axis=-1), np.ones(6))
        p = predict(model, inputs_of(), head="binary", from_logits=True)
        self.assertEqual(p.task, "binary")
        softmax = small_model(3, "softmax")
        self.assertEqual(self._task(softmax, head="regression"), "regression")

    def test_asked_for_wrongly(self):
        for kwargs in (
            {"head": "classes"},
            {"head": ["regression", "binary"]},
        ):
            with self.assertRaisesRegex(ValueError, "head"):
                predict(small_model(), inputs_of(), **kwargs)
        # Numbers have no logits: it cannot be written down.
        with self.assertRaisesRegex(TypeError, "from_logits"):
            kbd.Regression(from_logits=True)


def _heads(structure):
    """A model of three outputs, of which the last knows no noise."""
    inputs = keras.Input((4,))
    x = keras.layers.Dropout(0.5)(keras.layers.Dense(8)(inputs))
    outputs = {
        "z_number": keras.layers.Dense(2, name="z_number")(x),
        "classes": keras.layers.Dense(3, activation="softmax", name="classes")(
            x
        ),
        "certain": keras.layers.Dense(1, name="certain")(inputs),
    }
    if structure is dict:
        return keras.Model(inputs, outputs)
    return keras.Model(inputs, structure(outputs.values()))


class OutputsTest(TestCase):
    def test_dict(self):
        model, x = _heads(dict), inputs_of()
        p = predict(model, x, return_samples=True)
        self.assertEqual(set(p), {"z_number", "classes", "certain"})
        self.assertEqual(p["z_number"].task, "regression")
        self.assertEqual(p["classes"].task, "classification")
        self.assertEqual(p["z_number"].mean.shape, (6, 2))
        for name, part in p.items():
            one = kbd.sample_function(model, SEED, 3)(x)[name]
            self.assertAllClose(part.samples[3], np.asarray(one))

    def test_list(self):
        model, x = _heads(list), inputs_of()
        p = predict(model, x, return_samples=True)
        self.assertIsInstance(p, list)
        tasks = ["regression", "classification", "regression"]
        self.assertEqual([part.task for part in p], tasks)
        one = kbd.sample_function(model, SEED, 3)(x)
        for part, output in zip(p, one, strict=True):
            self.assertAllClose(part.samples[3], np.asarray(output))

    def test_output_without_noise_has_no_variance(self):
        for masks in ("shared", "independent"):
            for batch_size in (None, 1, 4):
                model, x = _heads(dict), inputs_of()
                p = predict(model, x, 37, masks=masks, batch_size=batch_size)
                self.assertAllEqual(p["certain"].variance, np.zeros((6, 1)))
                self.assertTrue(np.all(p["z_number"].variance > 0))
                exact = kbd.deterministic(model)(x)["certain"]
                self.assertAllClose(
                    p["certain"].mean, np.asarray(exact), rtol=1e-6
                )

    def test_task_per_output(self):
        model, x = _heads(dict), inputs_of()
        tasks = {
            "z_number": "regression",
            "classes": "binary",
            "certain": "auto",
        }
        p = predict(model, x, head=tasks)
        self.assertEqual(p["classes"].task, "binary")
        self.assertEqual(p["certain"].task, "regression")
        p = predict(
            _heads(list), x, head=["regression", "regression", "regression"]
        )
        self.assertEqual(p[1].task, "regression")
        with self.assertRaisesRegex(ValueError, "head"):
            predict(model, x, head={"classes": "binary"})

    def test_loss_per_output(self):
        inputs = keras.Input((4,))
        x = keras.layers.Dropout(0.5)(inputs)
        outputs = [
            keras.layers.Dense(3, name="b")(x),
            keras.layers.Dense(3, name="a")(x),
        ]
        logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for loss in ([logits, "mse"], {"b": logits, "a": "mse"}):
            model = keras.Model(inputs, outputs)
            model.compile("sgd", loss)
            tasks = [part.task for part in predict(model, inputs_of())]
            self.assertEqual(tasks, ["classification", "regression"])
        model = keras.Model(inputs, {"b": outputs[0], "a": outputs[1]})
        model.compile("sgd", {"b": logits, "a": "mse"})
        p = predict(model, inputs_of())
        self.assertEqual(p["b"].task, "classification")
        self.assertEqual(p["a"].task, "regression")

    def test_nested_structure_of_tasks(self):
        inputs = keras.Input((4,))
        x = keras.layers.Dropout(0.5)(inputs)
        model = keras.Model(
            inputs,
            {
                "pair": [
                    keras.layers.Dense(1)(x),
                    keras.layers.Dense(1, activation="sigmoid")(x),
                ],
                "classes": keras.layers.Dense(3, activation="softmax")(x),
            },
        )
        tasks = {"pair": ["regression", "binary"], "classes": "classification"}
        auto = predict(model, inputs_of())
        asked = predict(model, inputs_of(), head=tasks)
        for p in (auto, asked):
            detected = keras.tree.map_structure(lambda part: part.task, p)
            self.assertEqual(detected, tasks)

    def test_ordered_dict_keeps_names_and_tasks_together(self):
        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.drop = keras.layers.Dropout(0.5)
                self.classes = keras.layers.Dense(3, activation="softmax")
                self.number = keras.layers.Dense(1)

            def call(self, inputs):
                x = self.drop(inputs)
                pairs = [("z", self.classes(x)), ("a", self.number(x))]
                return collections.OrderedDict(pairs)

        model = Own()
        model(inputs_of())
        p = predict(
            model, inputs_of(), head={"z": "classification", "a": "regression"}
        )
        self.assertEqual(p["z"].task, "classification")
        self.assertEqual(p["z"].mean.shape, (6, 3))
        self.assertEqual(p["a"].task, "regression")
