# SPDX-License-Identifier: Apache-2.0
"""The plan: the steps that run once, those per sample, and numbers of noise."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.survey import find_sites
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests import zoo
from tests.helpers import TestCase
from tests.helpers import flat

layers = keras.layers


def plan_of(name, **kwargs):
    model, x = zoo.ZOO[name].build()
    return build_plan(model, example=input_data.specs_of(x), **kwargs)


def names(steps):
    return [step.path for step in steps]


class SplitTest(TestCase):
    def test_backbone_runs_once(self):
        inputs = keras.Input((6, 6, 2))
        x = layers.Conv2D(3, 3, name="conv")(inputs)
        x = layers.BatchNormalization(name="norm")(x)
        x = layers.GlobalAveragePooling2D(name="pool")(x)
        x = layers.Dropout(0.5, name="drop")(x)
        x = layers.Dense(3, name="head")(x)
        plan = build_plan(keras.Model(inputs, x))
        self.assertEqual(names(plan.prefix), ["conv", "norm", "pool"])
        self.assertEqual(names(plan.suffix), ["drop", "head"])
        self.assertLen(plan.cut, 1)

    def test_branch_without_noise_runs_once(self):
        a, b = keras.Input((4,)), keras.Input((4,))
        x = layers.Dropout(0.5, name="drop")(a)
        x = layers.Dense(4, name="noisy")(x)
        y = layers.Dense(4, name="certain")(b)
        z = layers.Add(name="add")([x, y])
        plan = build_plan(keras.Model([a, b], z))
        self.assertEqual(names(plan.prefix), ["certain"])
        self.assertEqual(names(plan.suffix), ["drop", "noisy", "add"])

    def test_noise_that_is_off_does_not_cut(self):
        for off in (
            {"layers": "second"},
            {},
        ):
            rate = 0.5 if off else 0.0
            model = keras.Sequential(
                [
                    keras.Input((4,)),
                    layers.Dropout(rate, name="first"),
                    layers.Dense(4, name="dense"),
                    layers.Dropout(0.5, name="second"),
                ]
            )
            plan = build_plan(model, **off)
            self.assertEqual(names(plan.prefix), ["first", "dense"])
            self.assertEqual(names(plan.suffix), ["second"])

    def test_prefix_of_a_model_runs_once_for_all_samples(self):
        counts = {"before": 0, "after": 0}

        class Counts(layers.Layer):
            def call(self, x):
                def count(value):
                    counts[self.name] += len(value)
                    return value

                y = tf.py_function(count, [x], x.dtype)
                y.set_shape(x.shape)
                return y

            def compute_output_spec(self, x):
                return keras.KerasTensor(x.shape, x.dtype)

        inner = keras.Sequential(
            [keras.Input((4,)), Counts(name="before"), layers.Dropout(0.5)]
        )
        inputs = keras.Input((4,))
        model = keras.Model(inputs, Counts(name="after")(inner(inputs)))
        for masks in ("shared", "independent"):
            for batch_size in (None, 2):
                settings = {"seed": 0, "masks": masks, "verbose": 0}
                # The check of a new program runs the layers too.
                with pytest.warns(kbd.BayesdropWarning, match="PyFunc"):
                    kbd.predict_with_uncertainty(
                        model,
                        zoo.numbers(4),
                        2,
                        allow_hidden_noise=True,
                        **flat(**settings),
                    )
                counts.update(before=0, after=0)
                with pytest.warns(kbd.BayesdropWarning, match="PyFunc"):
                    kbd.predict_with_uncertainty(
                        model,
                        zoo.numbers(4),
                        40,
                        allow_hidden_noise=True,
                        seed=0,
                        batch_size=batch_size,
                        verbose=0,
                        method=kbd.Sampling(masks=masks),
                    )
                self.assertEqual(counts, {"before": 5, "after": 200})

    @parameterized.parameters(*sorted(zoo.ZOO))
    def test_every_value_is_made_before_it_is_used(self, name):
        plan = plan_of(name)
        known = set(plan.inputs)
        for step in plan.steps:
            self.assertLessEqual(set(step.inputs), known)
            known.update(step.outputs)
        self.assertLessEqual(set(plan.outputs), known)
        before_noise = {value for step in plan.prefix for value in step.outputs}
        self.assertLessEqual(set(plan.cut), before_noise | set(plan.inputs))
        for step in plan.prefix:
            self.assertFalse(step.random)


class NumberTest(TestCase):
    @parameterized.parameters(*sorted(zoo.ZOO))
    def test_sites_have_numbers_of_their_own(self, name):
        plan = plan_of(name)
        numbers = []
        for step in sorted(
            plan.steps, key=lambda s: getattr(s, "site", None) or 0
        ):
            if isinstance(step, NoiseStep):
                numbers.append(step.site)
            else:
                numbers.extend(
                    range(step.first_site, step.first_site + step.num_sites)
                )
        self.assertEqual(sorted(numbers), list(range(len(numbers))))

    def test_numbers_do_not_depend_on_the_choice(self):
        model, _ = zoo.ZOO["nested_three_deep"].build()

        def numbers(plan):
            return {
                step.path: step.site
                for step in plan.steps
                if isinstance(step, NoiseStep)
            }

        everything = numbers(build_plan(model))
        self.assertEqual(sorted(everything.values()), [0, 1, 2])
        for path in everything:
            chosen = build_plan(model, layers=path)
            self.assertEqual(chosen.chosen, {path})
            self.assertEqual(numbers(chosen), everything)

    def test_building_twice_gives_the_same_plan(self):
        model, _ = zoo.ZOO["transformer"].build()
        first, second = (build_plan(model) for _ in range(2))
        self.assertEqual(first.signature, second.signature)
        self.assertEqual(hash(first.signature), hash(second.signature))
        self.assertEqual(names(first.steps), names(second.steps))

    def test_signature_tells_plans_apart(self):
        model, _ = zoo.ZOO["functional"].build()
        drop = next(la for la in model.layers if hasattr(la, "rate"))
        signatures = [build_plan(model).signature]
        signatures.append(build_plan(model, layers=drop.name).signature)
        drop.rate = 0.25
        signatures.append(build_plan(model).signature)
        signatures.append(
            build_plan(zoo.ZOO["functional"].build()[0]).signature
        )
        self.assertLen(set(signatures), 4)


class GraphTest(TestCase):
    def test_nested_models_are_opened(self):
        plan = plan_of("nested_three_deep")
        noise = [s for s in plan.steps if isinstance(s, NoiseStep)]
        self.assertLen(noise, 3)
        self.assertEqual(max(s.path.count("/") for s in noise), 3)

    def test_nested_model_with_another_dtype_is_called_whole(self):
        keras.config.set_dtype_policy("float64")
        inner = keras.Sequential(
            [keras.Input((4,)), layers.Dense(3), layers.Dropout(0.5)]
        )
        keras.config.set_dtype_policy("float32")
        inputs = keras.Input((4,))
        model = keras.Model(inputs, layers.Dense(2)(inner(inputs)))
        x = zoo.numbers(4)
        self.assertAllClose(kbd.deterministic(model)(x), model(x))
        p = kbd.predict_with_uncertainty(
            model, x, 4, seed=0, return_samples=True, verbose=0
        )
        self.assertAllClose(p.samples[2], kbd.sample_function(model, 0, 2)(x))
        self.assertGreater(p.variance.max(), 0)

    def test_nested_model_on_inputs_of_lower_rank(self):
        inner = keras.Sequential(
            [keras.Input((1,)), layers.Dense(3), layers.Dropout(0.5)]
        )
        inputs = keras.Input(())
        model = keras.Model(inputs, inner(inputs))
        x = zoo.numbers()
        self.assertAllClose(kbd.deterministic(model)(x), model(x))
        p = kbd.predict_with_uncertainty(
            model, x, 4, seed=0, return_samples=True, verbose=0
        )
        self.assertAllClose(p.samples[2], kbd.sample_function(model, 0, 2)(x))

    def test_nested_model_of_dicts(self):
        a, b = keras.Input((3,), name="z"), keras.Input((2,), name="a")
        inner = keras.Model(
            {"z": a, "a": b},
            {
                "second": layers.Dropout(0.5)(layers.Dense(2)(a)),
                "first": layers.Dense(4)(b),
            },
        )
        c, d = keras.Input((3,)), keras.Input((2,))
        outputs = inner({"a": d, "z": c})
        model = keras.Model(
            [c, d], [outputs["first"], layers.Dense(3)(outputs["second"])]
        )
        x = [zoo.numbers(3), zoo.numbers(2)]
        for ours, theirs in zip(
            kbd.deterministic(model)(x), model(x), strict=True
        ):
            self.assertAllClose(ours, theirs)

    def test_model_cut_out_of_another(self):
        """Layers have nodes that do not belong to the model."""
        inputs = keras.Input((4,))
        x = layers.Dense(5)(inputs)
        middle = layers.Dropout(0.5)(x)
        outputs = layers.Dense(2)(middle)
        whole = keras.Model(inputs, outputs)
        head = keras.Model(middle, outputs)
        tail = keras.Model(inputs, middle)
        self.assertEmpty(find_sites(head))
        self.assertLen(find_sites(tail), 1)
        features = np.asarray(kbd.deterministic(tail)(zoo.numbers(4)))
        self.assertAllClose(
            kbd.deterministic(head)(features),
            whole(zoo.numbers(4)),
            rtol=1e-5,
            atol=1e-6,
        )
