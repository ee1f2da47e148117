# SPDX-License-Identifier: Apache-2.0
"""Tests what the package assumes about Keras internals. News, not bugs."""

import inspect
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized
from keras.src.models.functional import Functional
from keras.src.trainers.data_adapters import get_data_adapter

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.observer import FUNCTIONS
from keras_bayesdrop._core.observer import observing
from tests import zoo
from tests.helpers import TestCase

layers = keras.layers
X = zoo.numbers(4)


def branching():
    inputs = keras.Input((4,))
    x = layers.Dense(3, name="left")(inputs)
    y = layers.Dense(3, name="right")(inputs)
    z = layers.Add(name="add")([x, y])
    return keras.Model(inputs, layers.Dense(2, name="last")(z))


class GraphTest(TestCase):
    def test_nodes_by_depth_run_from_deep_to_shallow(self):
        graph = branching()
        known = {id(t) for t in graph.inputs}
        order = []
        for depth in sorted(graph._nodes_by_depth, reverse=True):
            for node in graph._nodes_by_depth[depth]:
                if not node.operation or node.is_input:
                    continue
                self.assertLessEqual({id(t) for t in node.input_tensors}, known)
                known.update(id(t) for t in node.outputs)
                order.append(node.operation.name)
        self.assertEqual(sorted(order[:2]), ["left", "right"])
        self.assertEqual(order[2:], ["add", "last"])

    def test_arguments_fill_in_by_id(self):
        inputs = keras.Input((2, 4))
        other = keras.Input((3, 4))
        attention = layers.MultiHeadAttention(1, 2)
        attention(query=inputs, value=other, return_attention_scores=True)
        (node,) = attention._inbound_nodes
        args, kwargs = node.arguments.fill_in(
            {id(inputs): "query", id(other): "value"}
        )
        self.assertEqual(args, ())
        self.assertEqual(kwargs["query"], "query")
        self.assertEqual(kwargs["value"], "value")
        self.assertTrue(kwargs["return_attention_scores"])
        self.assertEqual(
            {id(t) for t in node.input_tensors}, {id(inputs), id(other)}
        )

    def test_one_tensor_twice_is_one_key(self):
        inputs = keras.Input((4,))
        add = layers.Add()
        add([inputs, inputs])
        (node,) = add._inbound_nodes
        args, _ = node.arguments.fill_in({id(inputs): 7})
        self.assertEqual(args, ([7, 7],))

    def test_sequential_runs_a_functional(self):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
        self.assertIsInstance(model._functional, Functional)
        self.assertNotIn(model._functional, model._layers)
        late = keras.Sequential([layers.Dense(2)])
        self.assertIsNone(late._functional)
        late(X)
        self.assertIsInstance(late._functional, Functional)
        late.add(layers.Dense(3))
        late(X)
        self.assertEqual(late._functional.outputs[0].shape[-1], 3)

    def test_functional_is_what_model_makes(self):
        self.assertIsInstance(branching(), Functional)
        self.assertIs(type(branching()).call, Functional.call)
        self.assertNotIsInstance(zoo.Subclassed(), Functional)

    def test_standardize_inputs(self):
        a, b = keras.Input((3,), name="z"), keras.Input((1,), name="a")
        model = keras.Model({"z": a, "a": b}, layers.Concatenate()([a, b]))
        self.assertEqual([t.name for t in model.inputs], ["a", "z"])
        first, second = model._standardize_inputs(
            {"z": np.ones((2, 3)), "a": np.zeros(2)}
        )
        self.assertEqual(first.shape, (2, 1))
        self.assertEqual(first.dtype, tf.float32)
        self.assertAllEqual(second, np.ones((2, 3)))

    def test_dict_inputs_are_not_matched_by_name(self):
        """A key too many shifts the arrays, with no more than a warning."""
        a, b = keras.Input((3,), name="z"), keras.Input((2,), name="a")
        model = keras.Model({"z": a, "a": b}, layers.Concatenate()([a, b]))
        x = {"z": np.ones((2, 3)), "a": np.ones((2, 2)), "b": np.ones((2, 7))}
        with pytest.warns(UserWarning, match="structure of `inputs`"):
            y = model(x)
        self.assertEqual(tuple(y.shape), (2, 9))

    def test_structures(self):
        model = zoo.ZOO["dict_outputs"].build()[0]
        self.assertEqual(set(model._outputs_struct), {"a", "z"})
        self.assertLen(model.outputs, 2)
        self.assertIs(model.outputs[0], model._outputs_struct["a"])
        inputs = keras.Input((4,))
        single = keras.Model([inputs], [layers.Dense(2)(inputs)])
        self.assertEqual(tuple(single([X]).shape), (5, 2))

    def test_layers_hold_their_layers(self):
        block = zoo.Block(3)
        self.assertEqual(block._layers, [block.dense, block.dropout])
        attention = layers.MultiHeadAttention(1, 2, dropout=0.5)
        attention(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
        self.assertIn(attention._dropout_layer, attention._layers)
        grouped = layers.GroupQueryAttention(2, 2, 1, dropout=0.5)
        grouped(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
        self.assertIn(grouped._dropout_layer, grouped._layers)
        both = layers.Bidirectional(layers.LSTM(2))
        self.assertEqual(
            both._layers, [both.forward_layer, both.backward_layer]
        )

    def test_stop_predicting_appears_with_predict(self):
        model, x = zoo.ZOO["functional"].build()
        self.assertFalse(hasattr(model, "stop_predicting"))
        model.predict(x, verbose=0)
        self.assertFalse(model.stop_predicting)


class ChangesTest(TestCase):
    """Attributes that change by themselves, and those that users change."""

    def _public(self, layer):
        return {
            name: id(value)
            for name, value in vars(layer).items()
            if not name.startswith("_")
            and name not in private_keras.own_state(layer)
        }

    def test_training_changes_no_other_public_attribute(self):
        for kind in ("functional", "subclassed", "batch_norm", "gru"):
            model, x = zoo.ZOO[kind].build()
            layers_of = private_keras.all_layers(model)
            before = [self._public(layer) for layer in layers_of]
            model.compile("adam", "mse")
            y = np.zeros_like(np.asarray(model(x)))
            model.fit(x, y, verbose=0, validation_split=0.4)
            model.evaluate(x, y, verbose=0)
            model.predict(x, verbose=0)
            model.train_on_batch(x, y)
            model.test_on_batch(x, y)
            model.predict_on_batch(x)
            after = [self._public(layer) for layer in layers_of]
            self.assertEqual(before, after)

    def test_names_left_out_are_there(self):
        model, x = zoo.ZOO["functional"].build()
        model.compile("adam", "mse")
        model.fit(x, np.asarray(model(x)), verbose=0)
        for name in ("optimizer", "loss", "stop_training", "built"):
            self.assertIn(name, vars(model))
            self.assertIn(name, private_keras.own_state(model))
        # A layer of one's own may use these names.
        self.assertNotIn("loss", private_keras.own_state(layers.Dense(1)))

    def test_compile_makes_something_new(self):
        model, x = zoo.ZOO["functional"].build()
        self.assertIsNone(private_keras.compiled_by(model))
        model.compile("adam", "mse")
        first = private_keras.compiled_by(model)
        model.fit(x, np.asarray(model(x)), verbose=0)
        self.assertIsNotNone(first)
        self.assertIs(private_keras.compiled_by(model), first)
        model.compile("adam", "mse")
        self.assertIsNot(private_keras.compiled_by(model), first)

    def test_settings_of_a_call(self):
        layer = layers.Dense(1, dtype="mixed_float16", trainable=False)
        self.assertEqual(
            private_keras.call_settings(layer), (False, "mixed_float16")
        )
        layer.trainable = True
        self.assertEqual(private_keras.call_settings(layer)[0], True)

    def test_functions_are_made_for_every_call(self):
        """So a view can make them anew."""
        requested = []

        class Model(keras.Model):
            def call(self, x):
                return x

            def make_predict_function(self, force=False):
                requested.append("predict")
                return super().make_predict_function(force)

            def make_test_function(self, force=False):
                requested.append("test")
                return super().make_test_function(force)

            def make_train_function(self, force=False):
                requested.append("train")
                return super().make_train_function(force)

        model = Model()
        model.compile("sgd", "mse")
        for _ in range(2):
            model.predict(X, verbose=0)
            model.predict_on_batch(X)
            model.evaluate(X, X, verbose=0)
        self.assertEqual(requested, ["predict", "predict", "test"] * 2)
        requested.clear()
        model = Model()
        model.dense = layers.Dense(4)
        model.dense.build((None, 4))
        model.call = lambda x: model.dense(x)
        model.compile("sgd", "mse")
        for _ in range(2):
            model.fit(X, X, verbose=0)
        self.assertEqual(requested.count("train"), 2)


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
            zoo.Penalty()(X)
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


def philox(key, counter, rounds=10):
    """Philox4x32 in plain Python: 64-bit key, 128-bit counter, four words."""
    word = 2**32 - 1
    c = [(counter >> (32 * i)) & word for i in range(4)]
    k = [key & word, key >> 32]
    for _ in range(rounds):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (second >> 32) ^ c[1] ^ k[0],
            second & word,
            (first >> 32) ^ c[3] ^ k[1],
            first & word,
        ]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return c


class PhiloxTest(TestCase):
    def words(self, key, low, high, count, jit_compile=False):
        @tf.function(jit_compile=jit_compile)
        def make(key, counter):
            return tf.raw_ops.StatelessRandomUniformFullIntV2(
                shape=[count], key=key, counter=counter, alg=1, dtype=tf.uint32
            )

        return make(
            tf.constant([key], tf.uint64), tf.constant([low, high], tf.uint64)
        )

    def test_known_answer(self):
        known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
        self.assertEqual(philox(0, 0), known)
        self.assertAllEqual(self.words(0, 0, 0, 4), known)

    @parameterized.parameters(False, True)
    def test_key_and_counter(self, jit_compile):
        key, low, high = 0x123456789ABCDEF0, 0xFEDCBA9876543210, 5 * 2**32 + 3
        want = [
            word
            for block in range(300)
            for word in philox(key, (high << 64) + low + block)
        ]
        got = self.words(key, low, high, 1200, jit_compile)
        self.assertAllEqual(got, want)

    def test_shape_is_row_major(self):
        flat = self.words(7, 0, 0, 24)
        block = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[2, 3, 4],
            key=tf.constant([7], tf.uint64),
            counter=tf.constant([0, 0], tf.uint64),
            alg=1,
            dtype=tf.uint32,
        )
        self.assertAllEqual(tf.reshape(block, [-1]), flat)


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


class RandomTest(TestCase):
    """Assumptions of `_core/observer.py`, `graph/sites` and `graph/observe`."""

    def test_random_functions_are_looked_up_at_every_call(self):
        backend = private_keras.random_backend()
        for name in FUNCTIONS:
            self.assertTrue(callable(getattr(backend, name)), name)
            self.assertTrue(callable(getattr(keras.random, name)), name)
        drawn = []

        class Sees:
            def draw(self, function, arguments):
                drawn.append((function, sorted(arguments)))
                return tf.zeros([3])

            def loop(self, run, arguments):
                raise AssertionError

        x = tf.ones([3])
        with observing(Sees()):
            keras.random.dropout(x, 0.5)
            keras.random.uniform((3,))
            layers.Dropout(0.5)(x, training=True)
            layers.GaussianNoise(0.5)(x, training=True)
        self.assertEqual(
            [name for name, _ in drawn],
            ["dropout", "uniform", "dropout", "normal"],
        )
        self.assertContainsSubset(
            ["inputs", "noise_shape", "rate"], drawn[0][1]
        )
        self.assertContainsSubset(
            ["dtype", "maxval", "minval", "shape"], drawn[1][1]
        )

    def test_no_function_that_draws_is_missing(self):
        known = {*FUNCTIONS, "SeedGenerator"}
        public = {name for name in dir(keras.random) if name[0] != "_"}
        self.assertEqual(public - known, set())

    def test_loops_over_time_are_looked_up_at_every_call(self):
        seen = []

        class Sees:
            def draw(self, function, arguments):
                raise AssertionError

            def loop(self, run, arguments):
                seen.append(sorted(arguments))
                return run(**arguments)

        layer = layers.SimpleRNN(2, unroll=True)
        layer.build((1, 3, 2))
        with observing(Sees()):
            layer(tf.ones([1, 3, 2]))
        self.assertContainsSubset(
            ["input_length", "inputs", "step_function", "time_major", "unroll"],
            seen[0],
        )

    def test_children_inherit_the_mode_of_the_context(self):
        modes = []

        class Child(layers.Layer):
            def call(self, x, training=None):
                modes.append(training)
                return x

        class Parent(layers.Layer):
            def __init__(self):
                super().__init__()
                self.child = Child()

            def call(self, x, training=None):
                self.child(x)
                with private_keras.training_mode(self, True):
                    self.child(x)
                return self.child(x)

        Parent()(tf.ones([1, 2]), training=False)
        # The build of the parent calls it first.
        self.assertEqual(modes[-3:], [False, True, False])

    def test_seed_generators_are_found(self):
        (state,) = private_keras.seed_variables(layers.Dropout(0.5))
        self.assertEqual(tuple(state.shape), (2,))
        self.assertEqual(private_keras.seed_variables(layers.Dense(2)), [])
        self.assertLen(private_keras.seed_variables(layers.RandomFlip()), 1)

    def test_recurrent_layers_make_masks_before_they_loop(self):
        layer = layers.RNN(layers.SimpleRNNCell(2))
        self.assertTrue(callable(layer._maybe_config_dropout_masks))

    def test_state_that_training_moves_is_not_trainable(self):
        norm = layers.BatchNormalization()
        norm.build((None, 3))
        self.assertLen(norm._non_trainable_variables, 2)
