# SPDX-License-Identifier: Apache-2.0
"""The one call: what it returns, what it caches, how it reads the outputs."""

import collections
import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.prediction.sampling import accumulate
from tests.helpers import TestCase
from tests.helpers import flat

SEED = 5


def _predict(model, x, num_samples=20, **kwargs):
    settings = {"seed": SEED, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(
        model, x, num_samples, **flat(**settings)
    )


def _model(outputs=1, activation=None, rate=0.5, **dense):
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dropout(rate, name="drop"),
            keras.layers.Dense(outputs, activation=activation, **dense),
        ]
    )


def _x(rows=6, features=4):
    rng = np.random.default_rng(2)
    return rng.normal(size=(rows, features)).astype(np.float32)


def _traces(model):
    """Programs traced for a model so far."""
    return programs.made(model)


class MomentsTest(TestCase):
    def test_are_those_of_the_samples(self):
        for masks in ("shared", "independent"):
            p = _predict(_model(3), _x(), 50, return_samples=True, masks=masks)
            exact = p.samples.astype(np.float64)
            self.assertEqual(p.samples.shape, (50, 6, 3))
            self.assertAllClose(p.mean, exact.mean(axis=0))
            self.assertAllClose(
                p.variance, exact.var(axis=0, ddof=1), rtol=1e-5
            )
            self.assertAllClose(
                p.mc_error,
                exact.std(axis=0, ddof=1) / np.sqrt(50),
                rtol=1e-5,
            )

    def test_do_not_depend_on_keeping_samples(self):
        model, x = _model(3), _x()
        kept = _predict(model, x, 50, return_samples=True)
        lean = _predict(model, x, 50)
        self.assertIsNone(lean.samples)
        self.assertAllEqual(kept.mean, lean.mean)
        self.assertAllEqual(kept.variance, lean.variance)

    def test_large_mean_and_small_spread_keep_three_digits(self):
        model = _model(2)
        x = _x()
        model.layers[-1].bias.assign([1e4, -1e4])
        kernel = model.layers[-1].kernel
        kernel.assign(kernel * 0.02)  # a spread of about 1e-2
        for batch_size in (None, 2):
            p = _predict(
                model, x, 300, return_samples=True, batch_size=batch_size
            )
            std = p.samples.astype(np.float64).std(axis=0, ddof=1)
            self.assertTrue(np.all((std > 1e-3) & (std < 1e-1)))
            self.assertAllClose(p.std, std, rtol=5e-4, atol=0)

    def test_noise_precision_adds_its_inverse(self):
        model, x = _model(2), _x()
        without = _predict(model, x)
        p = _predict(model, x, noise_precision=4.0)
        self.assertAllEqual(p.variance, without.variance)
        self.assertAllEqual(p.epistemic, without.variance)
        self.assertAllClose(p.total, without.variance + 0.25)
        self.assertAllClose(p.aleatoric, np.full((6, 2), 0.25))
        self.assertEqual(p.noise_precision, 4.0)
        # Probabilities have no observation noise of that kind.
        classes = _predict(_model(2, "softmax"), x)
        self.assertIsNone(classes.noise_precision)
        with self.assertRaisesRegex(TypeError, "noise_precision"):
            kbd.Classification(noise_precision=4.0)

    def test_stats(self):
        p = _predict(_model(), _x(), 20, batch_size=4, masks="independent")
        self.assertEqual(p.stats.num_samples, 20)
        self.assertEqual(p.stats.num_rows, 6)
        self.assertEqual(p.stats.seed, SEED)
        self.assertEqual(p.stats.masks, "independent")
        self.assertEqual(p.stats.batch_size, 4)
        self.assertGreater(p.stats.samples_per_second, 0)
        self.assertEqual(
            [step.name for step in p.stats.engine], ["dense", "drop", "dense_1"]
        )

    def test_stats_of_a_stream_tell_its_batches(self):
        data = tf.data.Dataset.from_tensor_slices(_x()).batch(3)
        self.assertEqual(_predict(_model(), data).stats.batch_size, 3)


class QuantilesTest(TestCase):
    def test_agree_with_those_of_the_samples(self):
        model, x = _model(2), _x()
        levels = [0.05, 0.5, 0.95]
        for batch_size in (None, 4):
            lean = _predict(
                model, x, 100, quantiles=levels, batch_size=batch_size
            )
            kept = _predict(model, x, 100, return_samples=True)
            self.assertIsNone(lean.samples)
            self.assertAllClose(lean.quantile(levels), kept.quantile(levels))
            low, high = lean.interval(0.9)
            self.assertAllClose(low, lean.quantile(0.05))
            self.assertAllClose(high, lean.quantile(0.95))
            self.assertTrue(np.all(low < high))

    def test_with_samples_too(self):
        p = _predict(
            _model(2), _x(), 100, quantiles=[0.25], return_samples=True
        )
        self.assertAllClose(
            p.quantile_values[0], np.quantile(p.samples, 0.25, axis=0)
        )

    def test_more_samples_than_the_sketch_holds(self):
        # 3000 samples through 1024 places; ranks are good to 2.3 % at
        # 200,000 samples by the sketch's own bound, and better here.
        levels = [0.0, 0.05, 0.5, 0.95, 1.0]
        model, x = _model(2), _x(3)
        lean = _predict(model, x, 3000, quantiles=levels)
        samples = _predict(model, x, 3000, return_samples=True).samples
        for level in levels:
            value = lean.quantile(level)
            below = np.mean(samples < value, axis=0)
            up_to = np.mean(samples <= value, axis=0)
            self.assertTrue(np.all(below <= level + 0.023), level)
            self.assertTrue(np.all(up_to >= level - 0.023), level)
        self.assertAllClose(lean.quantile(0.0), samples.min(axis=0))
        self.assertAllClose(lean.quantile(1.0), samples.max(axis=0))


class CacheTest(TestCase):
    def test_second_call_does_not_trace(self):
        for masks in ("shared", "independent"):
            model = _model()
            first = _predict(model, _x(), masks=masks)
            traces = _traces(model)
            counted = accumulate._programs.cache_info().currsize
            self.assertGreater(traces, 0)
            second = _predict(model, _x(), masks=masks)
            self.assertEqual(_traces(model), traces)
            _predict(model, _x() + 1, masks=masks, seed=99)
            self.assertEqual(_traces(model), traces)
            self.assertEqual(
                accumulate._programs.cache_info().currsize, counted
            )
            self.assertAllEqual(first.mean, second.mean)

    def test_other_rows_do_not_trace(self):
        model = _model()
        _predict(model, _x(6), batch_size=4)
        traces = _traces(model)
        for rows in (1, 2, 5, 9):
            _predict(model, _x(rows), batch_size=4)
        self.assertLessEqual(_traces(model) - traces, 1)

    def test_other_lengths_of_sequences_do_not_trace(self):
        model = keras.Sequential(
            [
                keras.Input((None, 3)),
                keras.layers.Dense(4),
                keras.layers.Dropout(0.5),
                keras.layers.GlobalAveragePooling1D(),
            ]
        )
        _predict(model, np.ones((2, 5, 3), np.float32))
        traces = _traces(model)
        for steps in (3, 4, 6):
            _predict(model, np.ones((2, steps, 3), np.float32))
        self.assertEqual(_traces(model), traces)

    def test_fit_in_between_is_picked_up(self):
        model, x = _model(), _x()
        model.compile("sgd", "mse")
        before = _predict(model, x)
        traces = _traces(model)
        model.fit(x, 10 + x[:, :1], epochs=3, verbose=0)
        after = _predict(model, x)
        self.assertEqual(_traces(model), traces)
        self.assertGreater(np.abs(after.mean - before.mean).min(), 0.1)
        # By an untouched copy of the trained model:
        fresh = _model()
        fresh.set_weights(model.get_weights())
        self.assertAllClose(after.mean, _predict(fresh, x).mean)

    @pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
    def test_set_weights_is_picked_up(self):
        model, x = _model(), _x()
        _predict(model, x)
        model.set_weights([0 * w for w in model.get_weights()])
        model.layers[-1].bias.assign([3.0])
        p = _predict(model, x)
        self.assertAllEqual(p.mean, np.full((6, 1), 3.0))
        self.assertAllEqual(p.variance, np.zeros((6, 1)))

    def test_changed_rate_takes_effect(self):
        model, x = _model(rate=0.5), _x()
        half = _predict(model, x, 200)
        model.get_layer("drop").rate = 0.1
        tenth = _predict(model, x, 200)
        reference = _model(rate=0.1)
        reference.set_weights(model.get_weights())
        self.assertAllClose(tenth.mean, _predict(reference, x, 200).mean)
        self.assertTrue(np.all(tenth.variance < half.variance))
        model.get_layer("drop").rate = 0.5
        self.assertAllEqual(_predict(model, x, 200).mean, half.mean)
        model.get_layer("drop").rate = 0.0
        with self.assertRaises(NothingToSampleError):
            _predict(model, x)

    def test_layers_added_are_picked_up(self):
        model, x = _model(2), _x()
        self.assertEqual(_predict(model, x).mean.shape, (6, 2))
        model.add(keras.layers.Dropout(0.5))
        model.add(keras.layers.Dense(3))
        self.assertEqual(_predict(model, x).mean.shape, (6, 3))

    def test_inputs_of_another_structure_are_not_mixed_up(self):
        class Sided(keras.Model):
            def __init__(self):
                super().__init__()
                self.drop = keras.layers.Dropout(0.5)

            def call(self, inputs):
                if "left" in inputs:
                    return self.drop(inputs["left"])
                return -self.drop(inputs["right"])

        model, ones = Sided(), np.ones((3, 4), np.float32)
        model({"left": ones})
        left = _predict(model, {"left": ones})
        right = _predict(model, {"right": ones})
        self.assertAllClose(right.mean, -left.mean)

    def test_deleted_model_is_collected(self):
        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.drop = keras.layers.Dropout(0.5)
                self.dense = keras.layers.Dense(2)

            def call(self, inputs):
                return self.dense(self.drop(inputs))

        def own():
            model = Own()
            model(_x())
            return model

        def recurrent():
            return keras.Sequential(
                [
                    keras.Input((4,)),
                    keras.layers.Reshape((2, 2)),
                    keras.layers.GRU(2, dropout=0.5),
                ]
            )

        def used(make):
            model = make()
            for masks in ("shared", "independent"):
                _predict(model, _x(), masks=masks)
            kbd.sample_function(model, 0, 1)(_x())
            kbd.stochastic(model)(_x())
            return weakref.ref(model)

        for make in (_model, own, recurrent):
            reference = used(make)
            gc.collect()
            self.assertIsNone(reference(), make.__name__)


class TaskTest(TestCase):
    def _task(self, model, **kwargs):
        p = _predict(model, _x(), **kwargs)
        return keras.tree.map_structure(lambda part: part.task, p)

    def test_of_the_last_activation(self):
        self.assertEqual(self._task(_model(1)), "regression")
        self.assertEqual(self._task(_model(1, "relu")), "regression")
        self.assertEqual(self._task(_model(3, "softmax")), "classification")
        self.assertEqual(self._task(_model(1, "sigmoid")), "binary")
        self.assertEqual(self._task(_model(3, "sigmoid")), "binary")

    def test_of_a_layer_or_function_behind(self):
        for layer, task in (
            (keras.layers.Softmax(), "classification"),
            (keras.layers.Activation("softmax"), "classification"),
            (keras.layers.Activation("sigmoid"), "binary"),
            (keras.layers.Activation(keras.ops.sigmoid), "binary"),
            (keras.layers.Activation("tanh"), "regression"),
        ):
            model = _model(3)
            model.add(layer)
            self.assertEqual(self._task(model), task)
        inputs = keras.Input((4,))
        x = keras.layers.Dropout(0.5)(inputs)
        model = keras.Model(inputs, keras.ops.softmax(x))
        self.assertEqual(self._task(model), "classification")

    def test_through_a_nested_model_and_a_reshape(self):
        inputs = keras.Input((4,))
        nested = _model(6, "softmax")(inputs)
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
        p = _predict(model, x.astype(np.float32))
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
            model = _model(outputs)
            raw = _predict(model, _x(), return_samples=True)
            model.compile("sgd", loss)
            p = _predict(model, _x(), return_samples=True)
            self.assertEqual(raw.task, "regression")
            self.assertEqual(p.task, task)
            self.assertAllClose(p.samples, np.asarray(link(raw.samples)))
            self.assertAllClose(p.mean, p.samples.mean(axis=0))

    def test_loss_on_probabilities_makes_no_number_a_probability(self):
        model = _model(3)
        model.compile("sgd", "mse")
        self.assertEqual(self._task(model), "regression")
        model = _model(3, "softmax")
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
            model(_x())
            model.compile("sgd", loss)
            self.assertEqual(self._task(model), task)

    def test_asked_for(self):
        model = _model(3)
        p = _predict(model, _x(), head="classification", from_logits=True)
        self.assertEqual(p.task, "classification")
        self.assertAllClose(p.mean.sum(axis=-1), np.ones(6))
        p = _predict(model, _x(), head="binary", from_logits=True)
        self.assertEqual(p.task, "binary")
        softmax = _model(3, "softmax")
        self.assertEqual(self._task(softmax, head="regression"), "regression")

    def test_asked_for_wrongly(self):
        for kwargs in (
            {"head": "classes"},
            {"head": ["regression", "binary"]},
        ):
            with self.assertRaisesRegex(ValueError, "head"):
                _predict(_model(), _x(), **kwargs)
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
        model, x = _heads(dict), _x()
        p = _predict(model, x, return_samples=True)
        self.assertEqual(set(p), {"z_number", "classes", "certain"})
        self.assertEqual(p["z_number"].task, "regression")
        self.assertEqual(p["classes"].task, "classification")
        self.assertEqual(p["z_number"].mean.shape, (6, 2))
        for name, part in p.items():
            one = kbd.sample_function(model, SEED, 3)(x)[name]
            self.assertAllClose(part.samples[3], np.asarray(one))

    def test_list(self):
        model, x = _heads(list), _x()
        p = _predict(model, x, return_samples=True)
        self.assertIsInstance(p, list)
        tasks = ["regression", "classification", "regression"]
        self.assertEqual([part.task for part in p], tasks)
        one = kbd.sample_function(model, SEED, 3)(x)
        for part, output in zip(p, one, strict=True):
            self.assertAllClose(part.samples[3], np.asarray(output))

    def test_output_without_noise_has_no_variance(self):
        for masks in ("shared", "independent"):
            for batch_size in (None, 1, 4):
                model, x = _heads(dict), _x()
                p = _predict(model, x, 37, masks=masks, batch_size=batch_size)
                self.assertAllEqual(p["certain"].variance, np.zeros((6, 1)))
                self.assertTrue(np.all(p["z_number"].variance > 0))
                exact = kbd.deterministic(model)(x)["certain"]
                self.assertAllClose(
                    p["certain"].mean, np.asarray(exact), rtol=1e-6
                )

    def test_task_per_output(self):
        model, x = _heads(dict), _x()
        tasks = {
            "z_number": "regression",
            "classes": "binary",
            "certain": "auto",
        }
        p = _predict(model, x, head=tasks)
        self.assertEqual(p["classes"].task, "binary")
        self.assertEqual(p["certain"].task, "regression")
        p = _predict(
            _heads(list), x, head=["regression", "regression", "regression"]
        )
        self.assertEqual(p[1].task, "regression")
        with self.assertRaisesRegex(ValueError, "head"):
            _predict(model, x, head={"classes": "binary"})

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
            tasks = [part.task for part in _predict(model, _x())]
            self.assertEqual(tasks, ["classification", "regression"])
        model = keras.Model(inputs, {"b": outputs[0], "a": outputs[1]})
        model.compile("sgd", {"b": logits, "a": "mse"})
        p = _predict(model, _x())
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
        auto = _predict(model, _x())
        asked = _predict(model, _x(), head=tasks)
        for p in (auto, asked):
            found = keras.tree.map_structure(lambda part: part.task, p)
            self.assertEqual(found, tasks)

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
        model(_x())
        p = _predict(
            model, _x(), head={"z": "classification", "a": "regression"}
        )
        self.assertEqual(p["z"].task, "classification")
        self.assertEqual(p["z"].mean.shape, (6, 3))
        self.assertEqual(p["a"].task, "regression")


class PrecisionTest(TestCase):
    def test_mixed_float16(self):
        keras.config.set_dtype_policy("mixed_float16")
        for activation in (None, "softmax"):
            model = _model(3, activation)
            self.assertEqual(model.layers[-1].compute_dtype, "float16")
            for masks in ("shared", "independent"):
                p = _predict(model, _x(), 50, masks=masks, return_samples=True)
                self.assertEqual(p.mean.dtype, np.float32)
                self.assertEqual(p.variance.dtype, np.float32)
                self.assertTrue(np.all(p.variance > 0))
                full = keras.Sequential(
                    [
                        keras.Input((4,)),
                        keras.layers.Dense(8, "tanh", dtype="float32"),
                        keras.layers.Dropout(0.5, dtype="float32"),
                        keras.layers.Dense(3, activation, dtype="float32"),
                    ]
                )
                full.set_weights(model.get_weights())
                other = _predict(full, _x(), 50, masks=masks)
                # float16 has 11 bits: a few of its steps at size 4.
                self.assertAllClose(p.mean, other.mean, rtol=0, atol=1e-2)

    def test_float64(self):
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        model = _model(2, rate=0.3)
        x = _x().astype(np.float64)
        p = _predict(model, x, 40, return_samples=True)
        self.assertEqual(p.mean.dtype, np.float64)
        self.assertEqual(p.samples.dtype, np.float64)
        self.assertAllClose(
            p.mean, p.samples.mean(axis=0), rtol=1e-13, atol=1e-13
        )
        one = np.asarray(kbd.sample_function(model, SEED, 17)(x))
        self.assertAllClose(p.samples[17], one, rtol=1e-12, atol=1e-12)

    def test_float64_reaches_the_masks(self):
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.3)])
        p = _predict(model, np.ones((2, 4)), 40, return_samples=True)
        kept = p.samples[p.samples != 0]
        self.assertAllClose(
            kept, np.full_like(kept, 1 / 0.7), rtol=1e-14, atol=0
        )

    def test_integers(self):
        model = keras.Sequential(
            [
                keras.Input((3,), dtype="int32"),
                keras.layers.Embedding(5, 2),
                keras.layers.Dropout(0.5),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        x = np.array([[0, 1, 2], [4, 3, 2]])
        for dtype in (np.int32, np.int64, np.uint8):
            p = _predict(model, x.astype(dtype))
            self.assertEqual(p.mean.shape, (2, 1))
            self.assertTrue(np.all(p.variance > 0))


class BadInputTest(TestCase):
    def test_is_named_before_anything_is_computed(self):
        model, x = _model(), _x()
        for word, kwargs in (
            ("num_samples", {"num_samples": 0}),
            ("num_samples", {"num_samples": 1}),
            ("num_samples", {"num_samples": 2.5}),
            ("num_samples", {"num_samples": True}),
            ("batch_size", {"batch_size": 0}),
            ("batch_size", {"batch_size": 1.5}),
            ("masks", {"masks": "common"}),
            ("method", {"method": "magic"}),
            ("engine", {"engine": "warp"}),
            ("seed", {"seed": 0.5}),
            ("quantiles", {"quantiles": [1.5]}),
            ("quantiles", {"quantiles": []}),
            ("quantiles", {"quantiles": 0.5}),
            ("noise_precision", {"noise_precision": 0.0}),
            ("noise_precision", {"noise_precision": float("nan")}),
            ("steps", {"steps": 0}),
            ("layers", {"layers": "nobody"}),
            ("layers", {"layers": []}),
            ("verbose", {"verbose": 7}),
        ):
            with self.assertRaisesRegex(ValueError, word, msg=str(kwargs)):
                kbd.predict_with_uncertainty(
                    model, x, **flat(**{"verbose": 0, **kwargs})
                )
        self.assertEqual(_traces(model), 0)

    def test_rows(self):
        model = _model()
        for word, x in (
            ("empty", np.zeros((0, 4))),
            ("fit", np.zeros((3, 5))),
            ("fit", np.zeros((3, 4, 2))),
            ("batch axis", np.float32(3)),
        ):
            with self.assertRaisesRegex(ValueError, word):
                _predict(model, x)

    def test_not_finite_is_named_by_its_row_in_the_whole(self):
        model, x = _model(), _x(20)
        x[13, 2] = np.nan
        x[17, 0] = np.inf
        with self.assertRaisesRegex(NonFiniteError, "13, 17"):
            _predict(model, x, batch_size=4)
        stream = tf.data.Dataset.from_tensor_slices(x).batch(6)
        with self.assertRaisesRegex(NonFiniteError, "13, 17"):
            _predict(model, stream)

    def test_not_finite_outputs_are_named(self):
        inputs = keras.Input((1,))
        x = keras.layers.Dropout(0.5)(inputs)
        model = keras.Model(inputs, keras.ops.log(x))  # log(0) if dropped
        x = np.ones((8, 1), np.float32)
        with self.assertRaisesRegex(NonFiniteError, "outputs"):
            _predict(model, x, batch_size=2)

    def test_empty_stream(self):
        data = tf.data.Dataset.from_tensor_slices(_x(0)).batch(3)
        with self.assertRaisesRegex(ValueError, "empty"):
            _predict(_model(), data)

    def test_nothing_to_sample(self):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        with self.assertRaisesRegex(NothingToSampleError, "dense"):
            _predict(model, _x())
        with self.assertRaises(NothingToSampleError):
            _predict(kbd.sample_function(_model(), 0), _x())


@pytest.mark.parametrize("steps", [1, 2])
def test_steps_end_a_stream(steps):
    data = tf.data.Dataset.from_tensor_slices(_x(10)).batch(3)
    model = _model()
    part = _predict(model, data, steps=steps)
    whole = _predict(model, _x(10))
    np.testing.assert_allclose(part.mean, whole.mean[: 3 * steps], rtol=1e-5)


def test_endless_generator_needs_steps():
    def forever():
        while True:
            yield _x(3)

    model = _model()
    p = _predict(model, forever(), steps=2)
    assert len(p) == 6


@pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
def test_rate_of_one_drops_everything():
    model = _model(2, rate=1.0)
    model.layers[-1].bias.assign([1.0, 2.0])
    p = _predict(model, _x())
    np.testing.assert_array_equal(p.mean, np.tile([1.0, 2.0], (6, 1)))
    np.testing.assert_array_equal(p.variance, np.zeros((6, 2)))


@pytest.mark.parametrize(
    "layer", [keras.layers.AlphaDropout, keras.layers.GaussianDropout]
)
def test_rate_of_one_without_a_finite_variance_is_refused(layer):
    """Keras lets these layers have rate 1; nothing can be computed there."""
    model = keras.Sequential(
        [keras.Input((4,)), layer(1.0), keras.layers.Dense(1)]
    )
    with pytest.raises(ValueError, match="rate"):
        _predict(model, _x())
