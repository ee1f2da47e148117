# SPDX-License-Identifier: Apache-2.0
"""Assumptions of `_core/compiled.py` about concrete functions."""

import contextlib
import gc
import weakref
from unittest import mock

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import compiled as module
from keras_bayesdrop._core.compiled import compiled
from keras_bayesdrop._core.compiled import direct_calls
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
        for way in (contextlib.nullcontext, direct_calls) * 2:
            expected = program.function(*inputs)
            with way():
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

    def test_some_programs_are_called_directly(self):
        programs = [compiled(lambda x, n: [x + 1.0], SPECS) for _ in range(3)]
        inputs = tf.ones([1, 3]), tf.constant(1)
        usual = []
        for program in programs:
            call = program.function._call_flat
            program.function._call_flat = lambda *args, call=call: (
                usual.append(call),
                call(*args),
            )[1]
        programs[0](*inputs)
        self.assertLen(usual, 1)
        limit = module._number_of_direct + 2
        with mock.patch.object(module, "MOST_DIRECT", limit), direct_calls():
            for program in programs * 2:
                self.assertAllEqual(program(*inputs)[0], np.full((1, 3), 2.0))
        self.assertLen(usual, 3)  # The third one, twice.
        programs[0](*inputs)
        self.assertLen(usual, 4)  # Outside of the context.

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
