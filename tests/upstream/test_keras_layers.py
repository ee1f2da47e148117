# SPDX-License-Identifier: Apache-2.0
"""Assumptions of the package about Keras' layers, variables and data adapters.

A failure here is news about Keras, not a bug of the package.
"""

import inspect
import threading

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from keras.src.trainers.data_adapters import get_data_adapter

from tests import zoo
from tests.helpers import TestCase
from tests.zoo.training import Penalty

layers = keras.layers
X = zoo.numbers(4)


class MaskTest(TestCase):
    def test_masks_are_attributes_of_tensors(self):
        y = layers.Embedding(9, 2, mask_zero=True)(np.array([[1, 0]]))
        self.assertAllEqual(y._keras_mask, [[True, False]])

    def test_layers_read_the_attribute(self):
        lstm = layers.LSTM(2)
        x = tf.constant(zoo.numbers(3, 4))
        plain = np.asarray(lstm(x))
        x._keras_mask = tf.constant([[True, True, False]] * 5)
        self.assertAllClose(lstm(x), lstm(x[:, :2]))
        self.assertNotAllClose(lstm(x), plain)


class CellTest(TestCase):
    @parameterized.parameters(
        layers.SimpleRNNCell, layers.GRUCell, layers.LSTMCell
    )
    def test_masks_come_from_methods(self, kind):
        cell = kind(2, dropout=0.5, recurrent_dropout=0.5)
        count = getattr(cell, "dropout_mask_count", None)
        for method in (cell.get_dropout_mask, cell.get_recurrent_dropout_mask):
            self.assertEqual(
                list(inspect.signature(method).parameters), ["step_input"]
            )
            mask = method(tf.ones((1, 2)))
            self.assertEqual(isinstance(mask, list), count is not None)
            if count is not None:
                self.assertLen(mask, count)

    @parameterized.parameters(layers.SimpleRNN, layers.GRU, layers.LSTM)
    def test_masks_are_looked_up_on_the_cell(self, kind):
        """They are asked for in inference too, and used in training only."""
        layer = kind(2, dropout=0.5)
        x = zoo.numbers(3, 4)
        certain = np.asarray(layer(x, training=False))
        tripled = np.asarray(layer(3 * x, training=False))
        asked = set()

        def get_mask(step_input):
            asked.add(tuple(step_input.shape))
            mask = 3 * tf.ones_like(step_input)
            count = getattr(layer.cell, "dropout_mask_count", None)
            return mask if count is None else [mask] * count

        vars(layer.cell)["get_dropout_mask"] = get_mask
        self.assertAllClose(layer(x, training=False), certain)
        self.assertAllClose(layer(x, training=True), tripled)
        self.assertEqual(asked, {(5, 4)})

    def test_instance_attributes_come_before_methods(self):
        dropout = layers.Dropout(0.5)
        vars(dropout)["call"] = lambda inputs, training=None: inputs * 3
        self.assertAllEqual(dropout(X), X * 3)


class AttentionTest(TestCase):
    @parameterized.parameters(layers.Attention, layers.AdditiveAttention)
    def test_apply_scores(self, kind):
        layer = kind(dropout=0.5)
        query, value = zoo.numbers(2, 4), zoo.numbers(3, 4)
        want, weights = layer([query, value], return_attention_scores=True)
        self.assertIsInstance(layer, layers.Attention)
        original = layer._apply_scores
        seen = []

        def apply_scores(scores, value, *args, **kwargs):
            kwargs["training"] = False
            result = original(scores, value, *args, **kwargs)
            seen.append(result[1])
            return result

        vars(layer)["_apply_scores"] = apply_scores
        self.assertAllClose(layer([query, value], training=True), want)
        self.assertAllClose(seen[0], weights)
        self.assertAllClose(keras.ops.matmul(seen[0], value), want)


class StatelessScopeTest(TestCase):
    def test_stops_assignments(self):
        norm = layers.BatchNormalization()
        dropout = layers.Dropout(0.5, seed=1)
        norm(X), dropout(X)
        before = [np.array(v) for v in (*norm.variables, *dropout.variables)]
        with keras.StatelessScope():
            norm(X, training=True)
            dropout(X, training=True)
        after = [np.array(v) for v in (*norm.variables, *dropout.variables)]
        for old, new in zip(before, after, strict=True):
            self.assertAllEqual(old, new)

    def test_stops_losses(self):
        dense = layers.Dense(2, activity_regularizer="l2")
        dense.build((None, 4))
        with keras.StatelessScope():
            dense(X)
            Penalty()(X)
        self.assertEmpty(dense._losses)

    def test_does_not_stop_losses_from_being_cleared(self):
        """So whoever calls a layer must put its losses back."""
        dense = layers.Dense(2, activity_regularizer="l2")
        dense(X)
        self.assertLen(dense.losses, 1)
        with keras.StatelessScope():
            dense(X)
        self.assertEmpty(dense.losses)

    def test_belongs_to_a_thread(self):
        norm = layers.BatchNormalization()
        norm(X)
        with keras.StatelessScope():
            thread = threading.Thread(target=lambda: norm(X, training=True))
            thread.start()
            thread.join()
        self.assertNotAllClose(np.array(norm.moving_mean), np.zeros(4))


class DataAdapterTest(TestCase):
    def test_arrays(self):
        adapter = get_data_adapter(X, batch_size=2, steps_per_epoch=None)
        adapter.on_epoch_begin()
        batches = [
            keras.utils.unpack_x_y_sample_weight(batch)[0]
            for batch in adapter.get_numpy_iterator()
        ]
        adapter.on_epoch_end()
        self.assertEqual([len(b) for b in batches], [2, 2, 1])
        self.assertAllEqual(np.concatenate(batches), X)

    def test_datasets_and_generators(self):
        for x in (
            tf.data.Dataset.from_tensor_slices(X).batch(2),
            ((X[i : i + 2],) for i in range(0, 5, 2)),
        ):
            adapter = get_data_adapter(x, batch_size=None, steps_per_epoch=None)
            batches = [
                keras.utils.unpack_x_y_sample_weight(batch)[0]
                for batch in adapter.get_tf_dataset()
            ]
            self.assertAllEqual(np.concatenate(batches), X)


class VariableTest(TestCase):
    def test_a_regularizer_put_on_a_variable_counts_once(self):
        # `layers/_block_scale.py` puts one on the kernels of other layers.
        dense = layers.Dense(4)
        inputs = keras.Input((4,))
        model = keras.Model(inputs, dense(dense(inputs)))
        dense.kernel.regularizer = keras.regularizers.L2(0.5)
        self.assertLen(model.losses, 1)
        expected = 0.5 * np.sum(np.square(dense.kernel))
        self.assertAllClose(model.losses[0], expected, rtol=1e-6)
        dense.trainable = False
        self.assertEmpty(model.losses)

    @parameterized.parameters(
        (layers.Dense(3), (4, 5), ["kernel"]),
        (layers.EinsumDense("ab,bcd->acd", (2, 3)), (4, 5), ["kernel"]),
        (layers.Conv2D(3, 2), (4, 5, 5, 2), ["kernel"]),
        (layers.DepthwiseConv2D(2), (4, 5, 5, 2), ["kernel"]),
        (
            layers.SeparableConv1D(3, 2),
            (4, 5, 2),
            ["depthwise_kernel", "pointwise_kernel"],
        ),
        (layers.GRUCell(3), (4, 5), ["kernel", "recurrent_kernel"]),
        (layers.BatchNormalization(), (4, 5), []),
        (layers.LayerNormalization(axis=(1, 2)), (4, 5, 2), []),
        (layers.PReLU(), (4, 5, 2), []),
    )
    def test_names_of_kernels(self, layer, shape, expected):
        layer.build(shape)
        names = [v.name for v in layer.weights if v.name.endswith("kernel")]
        self.assertEqual(names, expected)
