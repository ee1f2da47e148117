# SPDX-License-Identifier: Apache-2.0
"""Models cut to chosen weights."""

import keras
import numpy as np
import pytest

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.sparsity._cut import cut
from tests.sparsity import architectures
from tests.sparsity.fakes import Kit
from tests.sparsity.fakes import assert_same
from tests.sparsity.fakes import model_and_answer
from tests.sparsity.fakes import units

layers = keras.layers


def _model():
    x = keras.Input((4,))
    h = layers.Dense(5, activation="relu", name="a")(x)
    inner = keras.Sequential([keras.Input((5,)), layers.Dense(3, name="b")])
    inner.name = "inner"
    h = layers.Reshape((1, 3))(inner(h))
    h = layers.TimeDistributed(layers.Dense(2, name="c"), name="each")(h)
    h = layers.MultiHeadAttention(1, 2, name="heads")(h, h)
    return keras.Model(x, layers.Flatten()(h))


def test_masks_by_path():
    model = _model()
    kept = {
        "a": np.array([True, True, False, True, True]),  # A unit.
        "inner/b": np.array([[1], [1], [1], [1], [0]], bool),  # An input.
        "each/c": np.eye(3, 2, dtype=bool),
        "heads/value": np.arange(4).reshape(2, 1, 2) > 1,
    }
    plain = cut(model, kept)
    answer = keras.models.clone_model(model)
    answer.set_weights(model.get_weights())
    for layer, path in (
        (answer.get_layer("a"), "a"),
        (answer.get_layer("inner").layers[0], "inner/b"),
        (answer.get_layer("each").layer, "each/c"),
        (answer.get_layer("heads")._value_dense, "heads/value"),
    ):
        layer.kernel.assign(np.where(kept[path], layer.kernel, 0.0))
    assert_same(plain, answer)
    small = cut(model, kept, structured=True)
    # Unit 2 of `a` is constant, unit 4 is not used.
    assert units(small)["a"] == 3
    assert_same(small, answer)


def test_without_masks_only_the_noise_goes():
    model, _ = model_and_answer(architectures.wrapped)
    answer = architectures.wrapped(Kit(noisy=False))
    for name in ("d", "plain"):
        source = (
            model.get_layer("w").layer
            if name == "plain"
            else model.get_layer(name)
        )
        answer.get_layer(name).set_weights(
            [np.asarray(source.kernel), np.asarray(source.bias)]
        )
    for new, old in (
        (answer.get_layer("each").layer, model.get_layer("each").layer),
        (answer.get_layer("last"), model.get_layer("answer").layer),
    ):
        new.set_weights([np.asarray(old.kernel), np.asarray(old.bias)])
    assert_same(cut(model, {}), answer)


def test_a_layer_may_lose_all_its_weights():
    model = _model()
    plain = cut(model, {"a": np.zeros((), bool)}, structured=True)
    assert units(plain)["a"] == 1


def test_a_path_through_any_owner_of_a_shared_layer_will_do():
    shared = layers.Dense(2, name="shared")
    one = keras.Sequential([keras.Input((2,)), shared], name="one")
    two = keras.Sequential([keras.Input((2,)), shared], name="two")
    x = keras.Input((2,))
    model = keras.Model(x, two(one(x)))
    mask = np.array([[True, False], [True, True]])
    kernels = [
        np.asarray(cut(model, {path: mask}).layers[-1].kernel)
        for path in ("one/shared", "two/shared")
    ]
    for kernel in kernels:
        np.testing.assert_array_equal(kernel != 0, mask)


@pytest.mark.parametrize(
    ("kept", "received"),
    [
        ({"b": np.ones((5, 3), bool)}, "Received: 'b'"),
        ({"each": np.ones((3, 2), bool)}, "Received: 'each'"),
        ({"a": np.ones((5, 4), bool)}, r"shape \(5, 4\)"),
        ({"a": np.ones((4, 5))}, "dtype float64"),
    ],
)
def test_masks_that_do_not_fit(kept, received):
    with pytest.raises(BayesdropError, match=received):
        cut(_model(), kept)


def test_models_without_a_graph():
    class Own(keras.Model):
        def call(self, inputs):
            return inputs

    model = Own()
    model(np.ones((1, 3)))
    with pytest.raises(PlanError, match="own code"):
        cut(model, {})
