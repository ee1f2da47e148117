# SPDX-License-Identifier: Apache-2.0
"""Forms of layers in a dense chain, or why a layer has none."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from keras_bayesdrop.plan.layer_forms import ActivationForm
from keras_bayesdrop.plan.layer_forms import DenseForm
from keras_bayesdrop.plan.layer_forms import FlattenForm
from keras_bayesdrop.plan.layer_forms import IdentityForm
from keras_bayesdrop.plan.layer_forms import ScaleShiftForm
from keras_bayesdrop.plan.layer_forms import form_of

layers = keras.layers


def built(layer, *shape):
    layer.build((None, *shape))
    return layer


def inputs(*shape, dtype="float32"):
    return np.random.default_rng(0).normal(size=(5, *shape)).astype(dtype)


def randomize(layer):
    """Gives a layer weights of which every one is seen."""
    rng = np.random.default_rng(1)
    layer.set_weights(
        [rng.uniform(0.5, 2.0, w.shape) for w in layer.get_weights()]
    )
    return layer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_dense(activation, use_bias, dtype):
    layer = built(
        layers.Dense(4, activation=activation, use_bias=use_bias, dtype=dtype),
        3,
    )
    randomize(layer)
    form = form_of(layer)
    assert isinstance(form, DenseForm)
    assert form.activation == (activation or "linear")
    assert form.sizes == (3, 4)
    assert (form.bias is not None) == use_bias
    assert form.kernel().dtype == dtype
    x = inputs(3, dtype=dtype)
    y = tf.matmul(x, form.kernel())
    if use_bias:
        y = y + form.bias()
    y = getattr(keras.activations, form.activation)(y)
    np.testing.assert_allclose(y, layer(x), rtol=1e-6)


@pytest.mark.parametrize(
    "activation",
    [
        keras.activations.relu,
        layers.ReLU(),
        "hard_sigmoid",
        "log_softmax",
        "softsign",
        "exponential",
        lambda x: keras.activations.relu(x, max_value=6),
        tf.nn.relu,
    ],
)
def test_only_activations_of_keras_itself(activation):
    form = form_of(built(layers.Dense(4, activation=activation), 3))
    if activation is keras.activations.relu:
        assert form.activation == "relu"
    else:
        assert isinstance(form, str)
        assert "is not compiled" in form


def test_names_that_keras_has_twice():
    for alias, name in (("swish", "silu"), ("gelu", "gelu")):
        form = form_of(built(layers.Dense(4, activation=alias), 3))
        assert form.activation == name


def test_weights_are_read_when_called():
    layer = built(layers.Dense(4), 3)
    form = form_of(layer)
    layer.set_weights([np.full((3, 4), 7.0), np.full(4, 8.0)])
    np.testing.assert_array_equal(form.kernel(), np.full((3, 4), 7.0))
    np.testing.assert_array_equal(form.bias(), np.full(4, 8.0))


def test_low_rank_adapter_is_part_of_the_kernel():
    layer = built(layers.Dense(4), 3)
    layer.enable_lora(2)
    randomize(layer)
    form = form_of(layer)
    assert form.sizes == (3, 4)
    x = inputs(3)
    np.testing.assert_allclose(
        tf.matmul(x, form.kernel()) + form.bias(), layer(x), rtol=1e-5
    )
    plain = tf.matmul(x, layer._kernel) + layer.bias
    assert np.abs(plain - layer(x)).max() > 0.1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
def test_batch_normalization(shape, scale, center, dtype):
    for axis in (-1, len(shape)):
        layer = built(
            layers.BatchNormalization(
                axis=axis,
                scale=scale,
                center=center,
                epsilon=0.1,
                dtype=dtype,
            ),
            *shape,
        )
        randomize(layer)
        form = form_of(layer)
        assert isinstance(form, ScaleShiftForm)
        factor, summand = form.terms()
        assert factor.dtype == dtype and summand.dtype == dtype
        x = inputs(*shape, dtype=dtype)
        np.testing.assert_allclose(
            x * factor + summand,
            layer(x, training=False),
            rtol=1e-5,
            atol=1e-5,
        )


def test_statistics_are_read_when_called():
    layer = built(layers.BatchNormalization(epsilon=0.0), 2)
    terms = form_of(layer).terms
    layer.moving_mean.assign([1.0, 2.0])
    layer.moving_variance.assign([4.0, 16.0])
    factor, summand = terms()
    np.testing.assert_allclose(factor, [0.5, 0.25], rtol=1e-6)
    np.testing.assert_allclose(summand, [-0.5, -0.5], rtol=1e-6)


def test_normalization_of_another_axis():
    layer = built(layers.BatchNormalization(axis=1), 2, 3)
    assert "axis 1" in form_of(layer)


@pytest.mark.parametrize(
    ("make", "activation"),
    [
        (lambda: layers.Activation("tanh"), "tanh"),
        (lambda: layers.Activation("linear"), "linear"),
        (lambda: layers.Activation(None), "linear"),
        (lambda: layers.ReLU(), "relu"),
        (lambda: layers.LeakyReLU(negative_slope=0.2), "leaky_relu"),
        (lambda: layers.ELU(), "elu"),
        (lambda: layers.Softmax(), "softmax"),
    ],
)
def test_activations_alone(make, activation):
    layer = make()
    assert form_of(layer) == ActivationForm(activation)
    x = inputs(4)
    np.testing.assert_allclose(
        getattr(keras.activations, activation)(x), layer(x), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: layers.ReLU(max_value=6), "ReLU with settings"),
        (lambda: layers.ReLU(negative_slope=0.1), "ReLU with settings"),
        (lambda: layers.ReLU(threshold=0.5), "ReLU with settings"),
        (lambda: layers.LeakyReLU(), "slope 0.3"),
        (lambda: layers.ELU(alpha=0.5), "alpha 0.5"),
        (lambda: layers.Softmax(axis=1), "axis 1"),
        (lambda: layers.Softmax(axis=(1, 2)), "axis"),
        (lambda: layers.Activation("hard_sigmoid"), "hard_sigmoid"),
        (lambda: layers.Activation(lambda x: x), "<lambda>"),
        (lambda: layers.Flatten("channels_first"), "channels first"),
        (lambda: layers.PReLU(), "PReLU is not part"),
        (lambda: layers.LayerNormalization(), "LayerNormalization is not"),
        (lambda: layers.Conv2D(2, 1), "Conv2D is not part"),
        (lambda: layers.Reshape((2, 2)), "Reshape is not part"),
        (lambda: layers.EinsumDense("ab,bc->ac", 3), "EinsumDense is not"),
        (lambda: layers.Add(), "Add is not part"),
    ],
)
def test_what_is_none_of_them_says_why(make, reason):
    form = form_of(make())
    assert isinstance(form, str)
    assert reason in form


def test_what_hands_on_its_input():
    assert form_of(layers.Identity()) == IdentityForm()
    assert form_of(layers.ActivityRegularization(0.1)) == IdentityForm()
    assert form_of(layers.Flatten()) == FlattenForm()


@pytest.mark.parametrize(
    "base",
    [
        layers.Dense,
        layers.BatchNormalization,
        layers.ReLU,
        layers.Flatten,
        layers.Identity,
    ],
)
def test_a_subclass_may_compute_anything(base):
    own = type("Own", (base,), {})
    layer = own(4) if base is layers.Dense else own()
    assert form_of(layer) == "Own is not part of a dense chain"


def test_operations_that_are_no_layers():
    x = keras.Input((3,))
    operation = (x + 1.0)._keras_history.operation
    assert "is not part of a dense chain" in form_of(operation)


@pytest.mark.parametrize(
    ("policy", "dtype"),
    [
        ("mixed_float16", tf.float16),
        ("mixed_bfloat16", tf.bfloat16),
        ("float16", tf.float16),
        ("float64", tf.float64),
    ],
)
def test_weights_are_of_the_dtype_that_the_layer_computes_in(policy, dtype):
    form = form_of(built(layers.Dense(4, dtype=policy), 3))
    assert form.kernel().dtype == dtype
    assert form.bias().dtype == dtype


def test_other_dtypes():
    assert "computes in int32" in form_of(layers.Flatten(dtype="int32"))
    # Keras normalizes in single precision, whatever the layer computes in.
    layer = built(layers.BatchNormalization(dtype="mixed_float16"), 3)
    assert "normalizes in float32" in form_of(layer)


def test_quantized_kernels():
    layer = built(layers.Dense(4), 3)
    layer.quantize("int8")
    assert "int8" in form_of(layer)
