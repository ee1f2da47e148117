# SPDX-License-Identifier: Apache-2.0
"""Models of every public layer, saved once, with the numbers they computed.

`saved_layers.zip` has a `.keras` file for each model below, and an `.npz` file
of its numbers. `python -m tests.layers.saved_layers` adds those of new layers.
A change of the layers must leave the others as they are, so remove one only if
a change of its numbers is meant, and say so in CHANGELOG.md.
"""

import hashlib
import io
import pathlib
import platform
import re
import tempfile
import warnings
import zipfile

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop import experimental
from keras_bayesdrop import layers
from keras_bayesdrop._core import private_keras
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.noise import WeightNoiseSource

ARCHIVE = pathlib.Path(__file__).with_name("saved_layers.zip")
SQUARED_ERROR = GaussianLikelihood(3.0, num_outputs=2)
ROWS = 3
IMAGE = (5, 4, 2)
STEPS = (6, 3)


def _variational(**kwargs):
    return layers.VariationalDense(3, 50, seed=1, activation="tanh", **kwargs)


def _bayesian(**kwargs):
    return layers.BayesianDense(3, 50, seed=2, **kwargs)


def _concrete(layer, **kwargs):
    return layers.ConcreteDropout(
        layer, 50, length_scale=0.5, init_rate=0.3, seed=3, **kwargs
    )


def _residual(*block, **kwargs):
    return layers.ADDResidual(list(block), seed=4, **kwargs)


def _dense(units, name, **kwargs):
    return keras.layers.Dense(units, activation="relu", name=name, **kwargs)


# Name, shape of a row, and the layer.
LAYERS = {
    "mc_dropout": ((7,), lambda: layers.MCDropout(0.4, seed=5)),
    "mc_dropout_gaussian": (
        (6, 3),
        lambda: layers.MCDropout(
            0.4, noise="gaussian", noise_shape=(None, 1, None), seed=5
        ),
    ),
    "mc_dropout_beta": ((7,), lambda: layers.MCDropout(noise="beta", seed=5)),
    "mc_dropout_half": (
        (7,),
        lambda: layers.MCDropout(0.4, seed=5, dtype="mixed_float16"),
    ),
    "mc_spatial_1d": (STEPS, lambda: layers.MCSpatialDropout1D(0.4, seed=5)),
    "mc_spatial_2d": (
        IMAGE,
        lambda: layers.MCSpatialDropout2D(
            0.4, data_format="channels_first", seed=5, dtype="mixed_float16"
        ),
    ),
    "mc_spatial_3d": (
        (2, *IMAGE),
        lambda: layers.MCSpatialDropout3D(noise="rayleigh", seed=5),
    ),
    "mc_gaussian": ((7,), lambda: layers.MCGaussianDropout(0.4, seed=5)),
    "mc_alpha": (
        STEPS,
        lambda: layers.MCAlphaDropout(0.4, noise_shape=(None, 1, 3), seed=5),
    ),
    "masksembles": ((7,), lambda: layers.Masksembles(3, 1.5, seed=5)),
    "drop_connect": (
        (4,),
        lambda: layers.DropConnectDense(3, 0.4, seed=6, activation="relu"),
    ),
    "drop_connect_gaussian": (
        (4,),
        lambda: layers.DropConnectDense(3, 0.4, noise="gaussian", seed=6),
    ),
    "drop_connect_conv": (
        IMAGE,
        lambda: layers.DropConnectConv2D(
            2, 3, noise="log_normal", padding="same", seed=6
        ),
    ),
    "marginalized": (
        (4,),
        lambda: layers.MarginalizedDropoutDense(
            3, 0.4, loss="categorical_crossentropy", activation="softmax"
        ),
    ),
    "concrete": ((4,), lambda: _concrete(_dense(3, "inner"))),
    "concrete_mse": (
        IMAGE,
        lambda: _concrete(
            keras.layers.SeparableConv2D(3, 2, name="inner"),
            sampling="concrete",
            temperature=0.2,
            likelihood=SQUARED_ERROR,
        ),
    ),
    "variational": ((4,), lambda: _variational(prior="log_uniform")),
    "variational_limits": (
        (4,),
        lambda: _variational(
            prior="log_uniform",
            kl="molchanov",
            log_alpha_limit=8.0,
            train_threshold=3.0,
        ),
    ),
    "variational_kingma": (
        (4,),
        lambda: _variational(
            prior="log_uniform",
            kl="kingma",
            parametrization="multiplicative",
            alpha="row",
        ),
    ),
    "variational_correlated": (
        STEPS,
        lambda: _variational(prior="log_uniform", parametrization="correlated"),
    ),
    "variational_gaussian": (
        (4,),
        lambda: _variational(
            prior="gaussian",
            likelihood=SQUARED_ERROR,
            noise_initializer="zeros",
        ),
    ),
    "variational_half": (
        (4,),
        lambda: _variational(prior="student_t", dtype="mixed_float16"),
    ),
    "variational_conv_1d": (
        STEPS,
        lambda: layers.VariationalConv1D(
            2, 3, 50, prior="gaussian", padding="causal", seed=7
        ),
    ),
    "variational_conv_2d": (
        IMAGE,
        lambda: layers.VariationalConv2D(
            4, 3, 50, prior="log_uniform", strides=2, groups=2, seed=7
        ),
    ),
    "variational_conv_correlated": (
        IMAGE,
        lambda: layers.VariationalConv2D(
            4,
            2,
            50,
            prior="horseshoe",
            parametrization="correlated",
            alpha="layer",
            seed=7,
        ),
    ),
    "variational_dropout": (
        (4,),
        lambda: layers.VariationalDropout(50, prior="log_uniform", seed=8),
    ),
    "variational_dropout_unit": (
        (4,),
        lambda: layers.VariationalDropout(
            50, alpha="unit", prior="gaussian", weights_per_unit=3, seed=8
        ),
    ),
    "bayesian": ((4,), _bayesian),
    "bayesian_plain": (
        (4,),
        lambda: _bayesian(structure=None, sigma0=0.5, estimator="local"),
    ),
    "bayesian_both": (
        (4,),
        lambda: _bayesian(
            structure="ard_add",
            scale_prior=["inverse_gamma", "half_cauchy"],
            scales="variable",
            activation="relu",
        ),
    ),
    "bayesian_conv": (
        IMAGE,
        lambda: layers.BayesianConv2D(
            4, 3, 50, scale_prior="half_cauchy", groups=2, seed=9
        ),
    ),
    "bayesian_conv_local": (
        IMAGE,
        lambda: layers.BayesianConv2D(
            4, 2, 50, structure="add", estimator="local", seed=9
        ),
    ),
    "residual": (
        (4,),
        lambda: _residual(
            _dense(3, "a", kernel_regularizer="l2"),
            _dense(5, "b"),
            scale_prior="half_cauchy",
            num_train_examples=50,
            projection="auto",
        ),
    ),
    "residual_variable": (
        (4,),
        lambda: _residual(
            _dense(4, "a"),
            scale_prior="inverse_gamma",
            num_train_examples=50,
            scales="variable",
            sigma0=0.5,
        ),
    ),
    "residual_noise": (
        (4,),
        lambda: _residual(_dense(4, "a"), mode="noise", rate=0.4),
    ),
    "residual_noise_input": (
        (4,),
        lambda: _residual(
            _dense(4, "a"), mode="noise", noise="beta", noise_on="input"
        ),
    ),
    "residual_of_bayesian": (
        (4,),
        lambda: _residual(
            layers.BayesianDense(4, 50, structure="add", seed=2, name="a")
        ),
    ),
    "spiking": (
        (4,),
        lambda: experimental.SpikingDense(3, spike_size=0.7, seed=10),
    ),
    "spiking_connection": (
        (4,),
        lambda: experimental.SpikingDense(3, firing="connection", seed=10),
    ),
    "drop_in": ((4,), lambda: experimental.DropIn(0.4, seed=11)),
    "backpercolation": (
        (4,),
        lambda: experimental.Backpercolation("tanh", scale=0.5, seed=12),
    ),
}


def make_model(name):
    """Makes a model of one layer, with weights that are all different."""
    shape, make = LAYERS[name]
    layer = make()
    inputs = keras.Input(shape)
    model = keras.Model(inputs, layer(inputs), name=name)
    generator = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = generator.normal(size=variable.shape)
        variable.assign_add(0.3 * noise.astype(variable.dtype))
    for each in private_keras.all_layers(model):
        if getattr(each, "kl_weight", None) is not None:
            each.kl_weight.assign(0.7)
    return model


def inputs_of(name):
    shape, _ = LAYERS[name]
    x = np.random.default_rng(1).uniform(size=(ROWS, *shape))
    return x.astype("float32")


def numbers_of(model):
    """Returns the numbers of a model that is new or just loaded."""
    x = inputs_of(model.name)
    numbers = {"inference": model(x)}
    with tf.GradientTape() as tape:
        numbers["training"] = model(x, training=True)
        losses = [tf.cast(loss, "float32") for loss in model.losses]
        outputs = tf.cast(numbers["training"], "float32")
        total = tf.add_n([tf.reduce_sum(outputs**2), *losses])
    variables = [v.value for v in model.trainable_variables]
    gradients = tape.gradient(total, variables)
    numbers |= {f"loss_{i}": loss for i, loss in enumerate(losses)}
    numbers |= {f"gradient_{i}": each for i, each in enumerate(gradients)}
    layer = model.layers[-1]
    if isinstance(layer, WeightNoiseSource):
        words = _words(layer.weight_units)
        numbers["sampled"] = layer.call_sampled(tf.constant(x), words)
        units = layer.row_units(tf.constant(x))
        if units is not None:
            words = _words(ROWS, 2, units)
            numbers["rows"] = layer.call_rows(tf.constant(x[:, None]), words)
    for name in ("log_alpha", "mean_kernel", "second_moments"):
        if hasattr(layer, name):
            numbers[name] = getattr(layer, name)()
    if getattr(layer, "kl_weight", None) is not None:
        numbers["kl_divergence"] = layer.kl_divergence()
    return {
        name: keras.ops.convert_to_numpy(each) for name, each in numbers.items()
    }


def _words(*shape):
    words = np.random.default_rng(2).integers(2**32, size=shape)
    return tf.constant(words.astype("uint32"))


def variable_paths(model):
    """Returns the paths of all variables, without numbers of objects."""
    return [re.sub(r"_\d+(?=/)", "", each.path) for each in model.variables]


def machine():
    """Returns a name of what decides the last bits of a number."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = [platform.processor()]
    processor = [
        line for line in lines if line.startswith(("model name", "flags"))
    ]
    parts = (*sorted(set(processor)), tf.__version__, keras.__version__)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def main():
    """Adds the layers that the archive lacks; what it has stays as it is."""
    with (
        zipfile.ZipFile(ARCHIVE, "a", zipfile.ZIP_DEFLATED) as archive,
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        saved = set(archive.namelist())
        if "machine.txt" not in saved:
            archive.writestr("machine.txt", machine())
        elif archive.read("machine.txt").decode() != machine():
            raise RuntimeError("The archive is of another machine.")
        for name in LAYERS:
            if f"{name}.keras" in saved:
                continue
            path = pathlib.Path(folder, f"{name}.keras")
            model = make_model(name)
            model.save(path)
            archive.write(path, path.name)
            paths = {
                "new_paths": variable_paths(model),
                "loaded_paths": variable_paths(keras.models.load_model(path)),
            }
            buffer = io.BytesIO()
            np.savez(buffer, **paths, **numbers_of(model))
            archive.writestr(f"{name}.npz", buffer.getvalue())


if __name__ == "__main__":
    main()
