# SPDX-License-Identifier: Apache-2.0
"""`ConcreteDropout`: saving, predictions, and the page about it."""

import math
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.layers import ConcreteDropout
from tests.docs.pages import blocks_of
from tests.helpers import TestCase
from tests.layers.concrete import ENGINES
from tests.layers.concrete import ROOT
from tests.layers.concrete import dense_with
from tests.layers.concrete import logit
from tests.layers.concrete import numbers
from tests.layers.concrete import predict
from tests.layers.concrete import traces

layers = keras.layers


class SavingTest(TestCase):
    def make(self):
        inner = keras.Sequential(
            [
                keras.Input((7,)),
                ConcreteDropout(layers.Dense(6, activation="relu"), 10),
                layers.Reshape((6, 1)),
                ConcreteDropout(layers.Conv1D(3, 2), 10, seed=3),
                layers.Flatten(),
            ]
        )
        inputs = keras.Input((7,))
        dense = ConcreteDropout(layers.Dense(2), 10, name="last")
        model = keras.Model(inputs, dense(inner(inputs)))
        for index, layer in enumerate((inner.layers[0], dense)):
            layer.noise.logit.assign(-0.5 - index)
            layer.kl_weight.assign(0.5)
        return model

    def test_clone(self):
        model = self.make()
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        x = numbers(3, 7)
        self.assertAllEqual(predict(clone, x), predict(model, x))
        self.assertIsNot(clone.get_layer("last"), model.get_layer("last"))
        # The penalty of the clone is that of its own variables.
        clone.get_layer("last").noise.logit.assign(3.0)
        self.assertNotAllClose(clone.losses[-1], model.losses[-1])

    def test_saved_model_loads_in_a_new_process(self):
        model = self.make()
        folder = self.get_temp_dir()
        path = os.path.join(folder, "model.keras")
        model.save(path)
        np.save(os.path.join(folder, "x.npy"), numbers(3, 7))
        program = """
import os
import sys
import keras
import numpy as np
import keras_bayesdrop as kbd
folder = sys.argv[1]
model = keras.models.load_model(os.path.join(folder, "model.keras"))
last = model.get_layer("last")
print(last.rate, float(last.kl_weight.numpy()), float(sum(model.losses)))
predicted = kbd.predict_with_uncertainty(
    model, np.load(os.path.join(folder, "x.npy")), 9, seed=3,
    return_samples=True, verbose=0,
)
np.save(os.path.join(folder, "samples.npy"), predicted.samples)
"""
        rate, weight, losses = self.run_in_new_process(program, folder).split()
        self.assertEqual(float(rate), model.get_layer("last").rate)
        self.assertEqual(float(weight), 0.5)
        self.assertAllClose(float(losses), float(sum(model.losses)))
        self.assertAllClose(
            np.load(os.path.join(folder, "samples.npy")),
            predict(model, numbers(3, 7)),
            rtol=1e-5,
        )


class PredictionTest(TestCase):
    @parameterized.product(
        engine=ENGINES, masks=("shared", "independent"), rank=(2, 3)
    )
    def test_is_dropout_of_the_learned_rate(self, engine, masks, rank):
        shape = (7,) if rank == 2 else (4, 7)
        learned = [
            ConcreteDropout(layers.Dense(6, activation="relu"), 10),
            ConcreteDropout(layers.Dense(2), 10),
        ]
        model = keras.Sequential([keras.Input(shape), *learned])
        learned[0].noise.logit.assign(-0.7)
        learned[1].noise.logit.assign(0.3)
        fixed = keras.Sequential(
            [
                keras.Input(shape),
                layers.Dropout(learned[0].rate),
                learned[0].layer,
                layers.Dropout(learned[1].rate),
                learned[1].layer,
            ]
        )
        x = numbers(5, *shape)
        self.assertAllEqual(
            predict(model, x, engine=engine, masks=masks),
            predict(fixed, x, engine=engine, masks=masks),
        )

    def test_is_spatial_dropout_before_a_convolution(self):
        layer = ConcreteDropout(layers.Conv2D(3, 2), 10, init_rate=0.4)
        model = keras.Sequential([keras.Input((5, 4, 6)), layer])
        fixed = keras.Sequential(
            [
                keras.Input((5, 4, 6)),
                layers.SpatialDropout2D(layer.rate),
                layer.layer,
            ]
        )
        x = numbers(3, 5, 4, 6)
        for masks in ("shared", "independent"):
            self.assertAllEqual(
                predict(model, x, masks=masks), predict(fixed, x, masks=masks)
            )

    @parameterized.product(engine=ENGINES, masks=("shared", "independent"))
    def test_masks_follow_training_without_a_new_trace(self, engine, masks):
        # The kernel is the identity, so that outputs show the masks.
        layer = dense_with(np.eye(16), init_rate=0.1)
        model = keras.Sequential([keras.Input((16,)), layer])
        x = np.ones((4, 16), "float32")

        def masks_of(rate):
            layer.noise.logit.assign(logit(rate))
            return predict(model, x, engine=engine, masks=masks) > 0

        masks_of(0.1)
        before = traces(model)
        self.assertGreater(before, 0)
        drawn = {rate: masks_of(rate) for rate in (0.2, 0.6, 0.9)}
        self.assertEqual(traces(model), before)
        for rate, mask in drawn.items():
            fixed = keras.Sequential(
                [keras.Input((16,)), layers.Dropout(rate), layers.ReLU()]
            )
            layer.noise.logit.assign(logit(rate))
            # Within the rounding of the logit, no word lies between.
            expected = predict(fixed, x, engine="reference", masks=masks) > 0
            self.assertAllEqual(mask, expected)

    def test_rate_learned_by_fit_is_predicted_with(self):
        layer = ConcreteDropout(layers.Dense(1), 8, init_rate=0.4)
        model = keras.Sequential([keras.Input((7,)), layer])
        model.compile(keras.optimizers.Adam(0.1), "mse")
        x = numbers(8, 7)
        predict(model, x)
        model.fit(x, np.ones((8, 1)), epochs=5, verbose=0)
        self.assertGreater(abs(layer.rate - 0.4), 0.01)
        fixed = keras.Sequential(
            [keras.Input((7,)), layers.Dropout(layer.rate), layer.layer]
        )
        self.assertAllEqual(predict(model, x), predict(fixed, x))

    @parameterized.product(
        sampling=("bernoulli", "concrete"), masks=("shared", "independent")
    )
    def test_samples_are_functions_of_counters(self, sampling, masks):
        model = keras.Sequential(
            [
                keras.Input((7,)),
                ConcreteDropout(layers.Dense(5), 10, sampling=sampling),
                ConcreteDropout(layers.Dense(2), 10, sampling=sampling),
            ]
        )
        x = numbers(6, 7)
        whole = predict(model, x, masks=masks)
        self.assertGreater(whole.std(axis=0).min(), 0)
        parts = predict(model, x, masks=masks, batch_size=4)
        self.assertAllClose(parts, whole, rtol=1e-5, atol=1e-6)
        if masks == "shared":
            function = kbd.sample_function(model, seed=3, sample=2)
            self.assertAllClose(function(x), whole[2], rtol=1e-5, atol=1e-6)

    def test_relaxed_samples_have_the_moments_of_the_relaxation(self):
        rate, temperature = 0.3, 0.5
        layer = dense_with(
            [[1.0]],
            init_rate=rate,
            temperature=temperature,
            sampling="concrete",
        )
        model = keras.Sequential([keras.Input((1,)), layer])
        drawn = predict(model, np.ones((1, 1)), num_samples=20_000)

        def moment(power):
            def part(v):
                u = scipy.special.expit(v)
                keep = scipy.special.expit(-(logit(rate) + v) / temperature)
                return (keep / (1 - rate)) ** power * u * (1 - u)

            return scipy.integrate.quad(part, -40, 40, limit=200)[0]

        mean, variance = moment(1), moment(2) - moment(1) ** 2
        # 4 standard errors; values lie in [0, 1 / 0.7], so that the square of
        # the variance bounds its own variance by the range: 4 * 1.43^2 / 141.
        self.assertAllClose(
            drawn.mean(), mean, rtol=0, atol=4 * math.sqrt(variance / 20_000)
        )
        self.assertAllClose(drawn.var(), variance, rtol=0, atol=0.058)

    def test_inside_code_of_the_user(self):
        class Residual(keras.Model):
            def __init__(self):
                super().__init__()
                self.dropped = ConcreteDropout(
                    layers.Dense(7), 10, init_rate=0.4
                )

            def call(self, x):
                return x + self.dropped(x)

        model = Residual()
        x = numbers(4, 7)
        model(x)
        inputs = keras.Input((7,))
        fixed = layers.Dropout(model.dropped.rate)(inputs)
        fixed = keras.Model(inputs, inputs + model.dropped.layer(fixed))
        self.assertAllClose(
            predict(model, x), predict(fixed, x), rtol=1e-5, atol=1e-6
        )
        self.assertLen(model.losses, 1)

    def test_explained(self):
        layer = ConcreteDropout(layers.Dense(2), 10, init_rate=0.25)
        model = keras.Sequential([keras.Input((7,)), layer])
        (row,) = kbd.inspect(model).stochastic
        self.assertEqual(row.path, f"{layer.name}/noise")
        self.assertEqual(row.noise, "Bernoulli, learned rate 0.25")


class PageTest(TestCase):
    def test_figures_are_those_of_the_results(self):
        script = ROOT / "benchmarks" / "learned_dropout_page.py"
        done = subprocess.run(
            [sys.executable, str(script), "--check"], check=False
        )
        self.assertEqual(
            done.returncode,
            0,
            "The figures in docs/learned_dropout.md are not those of "
            "benchmarks/results. Run: python "
            "benchmarks/learned_dropout_page.py",
        )

    @pytest.mark.filterwarnings("ignore:The log-uniform prior is")
    def test_code_runs(self):
        blocks = blocks_of("learned_dropout.md")
        self.assertEqual(len(blocks), 2)
        x, y = numbers(40, 8), np.arange(40) % 10
        names = {"x": x, "y": y, "x_new": x[:5]}
        for block in blocks:
            exec(re.sub(r"\bepochs=\d+", "epochs=2, verbose=0", block), names)
        self.assertEqual(names["p"].mean.shape, (5, 10))
        self.assertEqual(type(names["small"].layers[-1]), layers.Dense)
