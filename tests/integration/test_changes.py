# SPDX-License-Identifier: Apache-2.0
"""Changes of a model that the cache of compiled programs notices."""

import keras
import numpy as np

import keras_bayesdrop as kbd
from tests import zoo
from tests.helpers import flat
from tests.integration.samples import first_sample
from tests.integration.samples import settings


def agrees_with_the_model(model, x):
    """Compares the compiled program with a call of the layers as they are."""
    view = kbd.sample_function(model, 1, 0)
    np.testing.assert_allclose(
        first_sample(model, x), np.asarray(view(x)), rtol=1e-4, atol=1e-5
    )


def test_second_call_does_not_trace():
    class Traced(keras.layers.Layer):
        calls = 0

        def call(self, x):
            self.calls += 1
            return x * 1.0

    before, after = Traced(), Traced()
    model = keras.Sequential(
        [keras.Input((4,)), before, keras.layers.Dropout(0.5), after]
    )
    x = zoo.numbers(4, rows=12)
    first_sample(model, x)
    calls = before.calls, after.calls
    for rows in (12, 1, 7):
        first_sample(model, x[:rows])
        kbd.predict_with_uncertainty(
            model, x[:rows], **flat(**settings(seed=9))
        )
    assert (before.calls, after.calls) == calls


def test_training_in_between_is_noticed():
    model, x = zoo.ZOO["functional"].build()
    first_sample(model, x)
    model.compile("sgd", "mse")
    model.fit(x, np.full((len(x), 3), 9.0), epochs=3, verbose=0)
    agrees_with_the_model(model, x)


def test_another_rate_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    model.layers[1].rate = 0.9
    agrees_with_the_model(model, x)


def test_another_layer_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    assert first_sample(model, x).shape == (zoo.ROWS, 2)
    model.add(keras.layers.Dense(7))
    assert first_sample(model, x).shape == (zoo.ROWS, 7)
    agrees_with_the_model(model, x)


def test_lora_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    dense = model.layers[0]
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones(dense.lora_kernel_b.shape))
    agrees_with_the_model(model, x)


def test_quantization_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    model.layers[0].quantize("int8")
    agrees_with_the_model(model, x)


def test_another_activation_is_noticed_after_compile():
    # Keras' own `predict` needs `compile` to notice it.
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    model.layers[-1].activation = keras.ops.square
    model.compile("sgd", "mse")
    agrees_with_the_model(model, x)
