# SPDX-License-Identifier: Apache-2.0
"""Assumptions of `_core/compiled.py` about concrete functions."""

import gc
import weakref

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.compiled import compiled
from tests.helpers import TestCase

SPECS = [tf.TensorSpec([None, 3]), tf.TensorSpec([], tf.int32)]


class CompiledTest(TestCase):
    def test_it_returns_what_the_concrete_function_returns(self):
        weight = tf.Variable(np.arange(6.0, dtype="float32").reshape(3, 2))

        def run(x, count):
            product = tf.nn.softmax(x @ weight * tf.cast(count, x.dtype))
            return [product, None, (tf.exp(x), count + 1)]

        program = compiled(run, SPECS)
        inputs = tf.random.stateless_normal([5, 3], [1, 2]), tf.constant(3)
        for _ in range(2):
            expected = program.function(*inputs)
            actual = program(*inputs)
            self.assertIsNone(actual[1])
            self.assertIsInstance(actual[2], tuple)
            tf.nest.assert_same_structure(actual, expected)
            for one, other in zip(
                tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True
            ):
                if one is not None:
                    self.assertEqual(
                        one.numpy().tobytes(), other.numpy().tobytes()
                    )
            weight.assign_add(tf.ones_like(weight))  # It reads variables.

    def test_inside_another_function_it_is_a_part_of_it(self):
        inner = compiled(lambda x, count: [x * 2.0], SPECS)
        outer = compiled(lambda x: inner(x, tf.constant(1)), SPECS[:1])
        (doubled,) = outer(tf.ones([1, 3]))
        self.assertAllEqual(doubled, np.full((1, 3), 2.0))

    def test_the_runtime_forgets_it_with_the_last_reference(self):
        program = compiled(lambda x, count: [x + 1.0], SPECS)
        program(tf.ones([1, 3]), tf.constant(1))
        gone = weakref.ref(program.function)
        del program
        gc.collect()
        self.assertIsNone(gone())
