# SPDX-License-Identifier: Apache-2.0
"""The contract of engines, which the reference engine defines."""

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests import zoo
from tests.helpers import TestCase

ROWS, SAMPLES = 3, 2
KINDS = ("functional", "subclassed_deep", "masked_lstm", "positions", "ours")


def draws(first_sample=0, first_row=0, num_rows=ROWS, shared=False):
    return Draws(
        seed=tf.constant(5, tf.uint64),
        first_sample=first_sample,
        num_samples=tf.constant(SAMPLES),
        num_blocks=1,
        first_row=first_row,
        num_rows=num_rows,
        shared=shared,
        balanced=False,
    )


def run(plan, x, drawn):
    engine = Reference()
    cut = engine.run_prefix(plan, plan.flatten(x))
    assert len(cut) == len(plan.cut)
    return np.asarray(engine.run_suffix(plan, cut, drawn)[0])


class ContractTest(TestCase):
    def prepare(self, kind):
        model, x = zoo.ZOO[kind].build()
        x = tf.constant(x[:ROWS])
        return model, build_plan(model, None, input_data.specs_of(x)), x

    @parameterized.parameters(*KINDS[:-1])
    def test_without_draws_is_inference(self, kind):
        model, plan, x = self.prepare(kind)
        self.assertAllClose(run(plan, x, None), model(x, training=False))

    @parameterized.parameters(*KINDS)
    def test_samples_of_a_row_are_next_to_each_other(self, kind):
        _, plan, x = self.prepare(kind)
        folded = run(plan, x, draws())
        self.assertLen(folded, ROWS * SAMPLES)
        for row in range(ROWS):
            alone = run(
                plan, x[row : row + 1], draws(first_row=row, num_rows=1)
            )
            self.assertAllClose(
                folded[row * SAMPLES : (row + 1) * SAMPLES],
                alone,
                rtol=1e-5,
                atol=1e-6,
            )

    @parameterized.parameters(*KINDS)
    def test_samples_are_numbered(self, kind):
        _, plan, x = self.prepare(kind)
        late = run(plan, x, draws(first_sample=1))
        early = run(plan, x, draws(first_sample=0))
        self.assertAllClose(late[0::2], early[1::2], rtol=1e-5, atol=1e-6)
        self.assertNotAllClose(late, early)

    @parameterized.parameters(*KINDS)
    def test_shared_masks_are_those_of_row_zero(self, kind):
        _, plan, x = self.prepare(kind)
        same = tf.repeat(x[:1], ROWS, axis=0)
        shared = run(plan, same, draws(shared=True, first_row=77))
        own = run(plan, same, draws())
        for row in range(ROWS):
            self.assertAllClose(
                shared[row * SAMPLES : (row + 1) * SAMPLES],
                own[:SAMPLES],
                rtol=1e-5,
                atol=1e-6,
            )
        self.assertNotAllClose(own[SAMPLES:], shared[SAMPLES:])


class ChoiceTest(TestCase):
    def plan(self):
        return build_plan(zoo.ZOO["functional"].build()[0])

    def test_a_value_and_its_reason(self):
        engine, reason = choose_engine(self.plan(), "reference")
        self.assertIsInstance(engine, Reference)
        self.assertEqual(reason, "asked for")
        engine, reason = choose_engine(self.plan())
        self.assertIn(engine.name, ("reference", "fused"))
        self.assertNotEmpty(reason)

    def test_fused_runs_or_says_why_not(self):
        try:
            engine, _ = choose_engine(self.plan(), "fused")
        except EngineUnavailableError as error:
            self.assertRegex(str(error), "(?s)cannot run.*Expected.*Received")
        else:
            self.assertEqual(engine.name, "fused")

    @parameterized.parameters("fast", "", None, 3, "Reference")
    def test_unknown(self, name):
        with self.assertRaisesRegex(BayesdropError, "engine.*Expected"):
            choose_engine(self.plan(), name)
