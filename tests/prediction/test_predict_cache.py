# SPDX-License-Identifier: Apache-2.0
"""Compiled programs of a model: kept, traced again, and let go."""

import gc
import weakref

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.prediction.sampling import accumulate
from tests.helpers import TestCase
from tests.prediction.small_model import count_traces
from tests.prediction.small_model import inputs_of
from tests.prediction.small_model import predict
from tests.prediction.small_model import small_model


class CacheTest(TestCase):
    def test_second_call_does_not_trace(self):
        for masks in ("shared", "independent"):
            model = small_model()
            first = predict(model, inputs_of(), masks=masks)
            traces = count_traces(model)
            counted = accumulate._programs.cache_info().currsize
            self.assertGreater(traces, 0)
            second = predict(model, inputs_of(), masks=masks)
            self.assertEqual(count_traces(model), traces)
            predict(model, inputs_of() + 1, masks=masks, seed=99)
            self.assertEqual(count_traces(model), traces)
            self.assertEqual(
                accumulate._programs.cache_info().currsize, counted
            )
            self.assertAllEqual(first.mean, second.mean)

    def test_other_rows_do_not_trace(self):
        model = small_model()
        predict(model, inputs_of(6), batch_size=4)
        traces = count_traces(model)
        for rows in (1, 2, 5, 9):
            predict(model, inputs_of(rows), batch_size=4)
        self.assertLessEqual(count_traces(model) - traces, 1)

    def test_other_lengths_of_sequences_do_not_trace(self):
        model = keras.Sequential(
            [
                keras.Input((None, 3)),
                keras.layers.Dense(4),
                keras.layers.Dropout(0.5),
                keras.layers.GlobalAveragePooling1D(),
            ]
        )
        predict(model, np.ones((2, 5, 3), np.float32))
        traces = count_traces(model)
        for steps in (3, 4, 6):
            predict(model, np.ones((2, steps, 3), np.float32))
        self.assertEqual(count_traces(model), traces)

    def test_fit_in_between_is_picked_up(self):
        model, x = small_model(), inputs_of()
        model.compile("sgd", "mse")
        before = predict(model, x)
        traces = count_traces(model)
        model.fit(x, 10 + x[:, :1], epochs=3, verbose=0)
        after = predict(model, x)
        self.assertEqual(count_traces(model), traces)
        self.assertGreater(np.abs(after.mean - before.mean).min(), 0.1)
        # By an untouched copy of the trained model:
        fresh = small_model()
        fresh.set_weights(model.get_weights())
        self.assertAllClose(after.mean, predict(fresh, x).mean)

    @pytest.mark.filterwarnings("ignore:Noise of model.*not vary")
    def test_set_weights_is_picked_up(self):
        model, x = small_model(), inputs_of()
        predict(model, x)
        model.set_weights([0 * w for w in model.get_weights()])
        model.layers[-1].bias.assign([3.0])
        p = predict(model, x)
        self.assertAllEqual(p.mean, np.full((6, 1), 3.0))
        self.assertAllEqual(p.variance, np.zeros((6, 1)))

    def test_changed_rate_takes_effect(self):
        model, x = small_model(rate=0.5), inputs_of()
        half = predict(model, x, 200)
        model.get_layer("drop").rate = 0.1
        tenth = predict(model, x, 200)
        reference = small_model(rate=0.1)
        reference.set_weights(model.get_weights())
        self.assertAllClose(tenth.mean, predict(reference, x, 200).mean)
        self.assertTrue(np.all(tenth.variance < half.variance))
        model.get_layer("drop").rate = 0.5
        self.assertAllEqual(predict(model, x, 200).mean, half.mean)
        model.get_layer("drop").rate = 0.0
        with self.assertRaises(NothingToSampleError):
            predict(model, x)

    def test_layers_added_are_picked_up(self):
        model, x = small_model(2), inputs_of()
        self.assertEqual(predict(model, x).mean.shape, (6, 2))
        model.add(keras.layers.Dropout(0.5))
        model.add(keras.layers.Dense(3))
        self.assertEqual(predict(model, x).mean.shape, (6, 3))

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
        left = predict(model, {"left": ones})
        right = predict(model, {"right": ones})
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
            model(inputs_of())
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
                predict(model, inputs_of(), masks=masks)
            kbd.sample_function(model, 0, 1)(inputs_of())
            kbd.stochastic(model)(inputs_of())
            return weakref.ref(model)

        for make in (small_model, own, recurrent):
            reference = used(make)
            gc.collect()
            self.assertIsNone(reference(), make.__name__)
