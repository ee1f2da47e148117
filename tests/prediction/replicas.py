# SPDX-License-Identifier: Apache-2.0
"""One step of `fit` on one device, and on two replicas of a model."""

import numpy as np

# Inputs of zero, so that there is no noise, and one step. The last layer makes
# the replicas wait for each other inside the model.
PROGRAM = """
import contextlib
import warnings
import keras
import numpy as np
import tensorflow as tf
import keras_bayesdrop as kbd
warnings.simplefilter("ignore", kbd.BayesdropWarning)
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
for devices in ((), ("CPU:0", "CPU:1")):
    keras.utils.set_random_seed(1)
    scope = contextlib.nullcontext()
    if devices:
        scope = tf.distribute.MirroredStrategy(devices).scope()
    with scope:
        layers = [LAYERS]
        model = keras.Sequential([
            keras.Input((5,)),
            *layers,
            keras.layers.BatchNormalization(synchronized=True),
        ])
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    history = model.fit(
        np.zeros((8, 5)), np.ones((8, 2)), batch_size=8, verbose=0
    )
    print(history.history["loss"][0])
    for layer in layers:
        for variable in layer.trainable_variables:
            print(float(keras.ops.sum(keras.ops.abs(variable))))
"""


def one_step(test, layers):
    """Trains layers of 2 outputs on one device, and on two.

    Args:
        test: The `TestCase`.
        layers: Expressions of the layers, with commas between.

    Returns:
        Twice the loss, and the sum of the absolute values of each trainable
        variable after the step.
    """
    printed = test.run_in_new_process(PROGRAM.replace("LAYERS", layers))
    numbers = [float(value) for value in printed.split()]
    return np.reshape(numbers, (2, -1))
