# SPDX-License-Identifier: Apache-2.0
"""What a layer is without its noise, in layers of Keras alone.

variational layer        Dense or Conv with the means that are kept
wrapper with noise       the layer inside
noise that is learned    nothing
MCDropout and its like   the layer of Keras, which is off at prediction
anything else            a copy
"""

from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.export import PACKAGE
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.surgery.copies import Masks
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.copies import copied
from keras_bayesdrop.graph.surgery.copies import new_layer
from keras_bayesdrop.graph.surgery.copies import users_objects
from keras_bayesdrop.graph.surgery.kernels import as_array
from keras_bayesdrop.graph.surgery.names import Names
from keras_bayesdrop.layers import MCAlphaDropout
from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.layers import MCGaussianDropout
from keras_bayesdrop.layers import MCSpatialDropout1D
from keras_bayesdrop.layers import MCSpatialDropout2D
from keras_bayesdrop.layers import MCSpatialDropout3D
from keras_bayesdrop.layers.drop_connect import DropConnectConv2D
from keras_bayesdrop.layers.drop_connect import DropConnectDense
from keras_bayesdrop.layers.sources import PlainInside
from keras_bayesdrop.layers.sources import SparseSource
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import NoiseSource
from keras_bayesdrop.noise import NoiseThenLayer

# Without their noise these are the class of Keras, with their own kernel.
_PLAIN_KERNELS: dict[type, Any] = {
    DropConnectConv2D: keras.layers.Conv2D,
    DropConnectDense: keras.layers.Dense,
}
_PLAIN_NOISE: dict[type, Any] = {
    MCAlphaDropout: keras.layers.AlphaDropout,
    MCDropout: keras.layers.Dropout,
    MCGaussianDropout: keras.layers.GaussianDropout,
    MCSpatialDropout1D: keras.layers.SpatialDropout1D,
    MCSpatialDropout2D: keras.layers.SpatialDropout2D,
    MCSpatialDropout3D: keras.layers.SpatialDropout3D,
}


def plain_parts(
    operation: Any, path: str, names: Names, masks: Masks
) -> list[Part]:
    """Returns the plain layers, in a row, that stand for a layer.

    Args:
        operation: Keras layer or operation.
        path: Names from the model down to it.
        names: Gives the new layers their names.
        masks: Weights to keep; the others become zero.

    Returns:
        New layers, and how to load them. Nothing for noise alone.
    """
    if isinstance(operation, SparseSource) or (
        type(operation) in _PLAIN_KERNELS
    ):
        return [_mean_layer(operation, names.take(operation, path), masks)]
    inner = _layers_inside(operation)
    if inner is not None:
        parts = []
        for number, layer in enumerate(inner, 1):
            if number == len(inner):
                names.inherit(layer, operation)
            inside = f"{path}/{layer.name}"
            parts += plain_parts(layer, inside, names, masks)
        return [Part(part.layer, part.load, alone=True) for part in parts]
    if type(operation) in _PLAIN_NOISE:
        return _plain_noise(operation, path, names)
    if type(operation) is keras.layers.TimeDistributed:
        return _time_distributed(operation, path, names, masks)
    for layer in private_keras.all_layers(operation):
        if _needs_this_package(layer):
            raise BayesdropError(
                f"Layer `{path}` has no plain form. Expected layers of Keras, "
                "layers of this package that can be made plain, and layers "
                "without such layers inside. Received: "
                f"{type(operation).__name__}"
                + ("" if layer is operation else f" with `{layer.name}` inside")
            )
    return [copied(operation, names.take(operation, path), masks)]


def _layers_inside(operation: Any) -> list[Any] | None:
    """Returns the layers in a row that a layer is, if it is nothing more."""
    if isinstance(operation, PlainInside):
        return operation.plain_layers()
    if isinstance(operation, NoiseThenLayer):
        return list(operation.noise_then_layer())
    if isinstance(operation, NoiseSource):
        noise, _ = operation.noise_site()
        if type(noise).expected is Noise.expected:
            return []
    return None


def _mean_layer(layer: Any, name: str, masks: Masks) -> Part:
    """Returns the layer whose weights are the means that are kept."""
    with keras.saving.custom_object_scope(users_objects(layer)):
        if isinstance(layer, SparseSource):
            plain, mean = layer.plain_layer(), layer.mean_kernel()
        else:
            cls = _PLAIN_KERNELS[type(layer)]
            plain, mean = cls.from_config(cls.get_config(layer)), layer.kernel
    new = new_layer(plain, {"name": name})
    kernel = np.where(masks.get(id(layer), True), as_array(mean), 0)

    def load() -> None:
        new.kernel.assign(kernel)
        if new.use_bias:
            new.bias.assign(as_array(layer.bias))

    return Part(new, load, alone=True)


def _plain_noise(layer: Any, path: str, names: Names) -> list[Part]:
    """Returns the layer of Keras with the same noise, if it has one."""
    config = layer.get_config()
    plain = _PLAIN_NOISE[type(layer)]
    noise = config.pop("noise", "bernoulli")
    if noise == "gaussian":
        plain = keras.layers.GaussianDropout
        del config["noise_shape"]
    elif noise != "bernoulli":
        return []
    config["name"] = names.take(layer, path)
    return [Part(plain.from_config(config), alone=True)]


def _time_distributed(
    wrapper: Any, path: str, names: Names, masks: Masks
) -> list[Part]:
    inside = f"{path}/{wrapper.layer.name}"
    # What is inside another layer need not be unique in the model.
    parts = plain_parts(wrapper.layer, inside, Names(()), masks)
    if len(parts) > 1:
        raise BayesdropError(
            f"Layer `{path}` has no plain form. Expected one layer in it. "
            f"Received: {type(wrapper).__name__} around {len(parts)} layers"
        )
    name = names.take(wrapper, path)
    return [
        Part(
            keras.layers.TimeDistributed(
                part.layer,
                name=name,
                trainable=wrapper.trainable,
                dtype=wrapper.dtype_policy,
            ),
            part.load,
            part.alone,
        )
        for part in parts
    ]


def _needs_this_package(layer: Any) -> bool:
    return any(
        cls.__module__.split(".")[0] == PACKAGE for cls in type(layer).__mro__
    )
