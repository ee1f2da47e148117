# SPDX-License-Identifier: Apache-2.0
"""Assumptions of the package about Keras' graphs and changes of models.

A failure here is news about Keras, not a bug of the package.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.models.functional import Functional

from keras_bayesdrop._core import private_keras
from tests import zoo
from tests.helpers import TestCase
from tests.zoo.subclassed import Block
from tests.zoo.subclassed import Subclassed

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
        self.assertNotIsInstance(Subclassed(), Functional)

    def test_one_tensor_as_the_graph_wants_it_is_returned_as_it_is(self):
        x = tf.constant(X)
        inputs = keras.Input((4,))
        listed = keras.Model([inputs], layers.ReLU()(inputs))
        for model in (branching(), listed):
            (kept,) = model._standardize_inputs(x)
            self.assertIs(kept, x)
            self.assertIs(private_keras.standardize_inputs(model, x)[0], x)
        for other in (tf.cast(x, tf.float64), x[..., None]):
            (theirs,) = branching()._standardize_inputs(other)
            (ours,) = private_keras.standardize_inputs(branching(), other)
            self.assertEqual(ours.dtype, theirs.dtype)
            self.assertAllEqual(ours, theirs)

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
        block = Block(3)
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


def test_loss_holds_the_function_that_it_calls():
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    function, arguments = private_keras.function_of_loss(loss)
    assert function is keras.losses.binary_crossentropy
    assert arguments["from_logits"] is True
    assert private_keras.function_of_loss("mse") == (None, {})
