# SPDX-License-Identifier: Apache-2.0
"""Replaces a layer by Keras layers without noise.

variational layer        Dense or Conv with the means of the weights to keep
wrapper with noise       the layer inside
learned noise            no layer
MCDropout and the like   the Keras layer, which is off at prediction
any other layer          a copy
"""

from typing import Any

import keras
import numpy as np

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.export import PACKAGE
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.surgery.copies import Replacement
from keras_bayesdrop.graph.surgery.copies import copy_layer
from keras_bayesdrop.graph.surgery.copies import new_layer
from keras_bayesdrop.graph.surgery.copies import user_defined_objects
from keras_bayesdrop.graph.surgery.kernels import KernelMasks
from keras_bayesdrop.graph.surgery.kernels import as_array
from keras_bayesdrop.graph.surgery.names import LayerNames
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

# Layers that become a Keras layer with the same kernel.
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


def plain_replacements(
    operation: Any, path: str, names: LayerNames, masks: KernelMasks
) -> list[Replacement]:
    """Returns the plain layers, in order, that replace a layer.

    Args:
        operation: Keras layer or operation.
        path: Names from the model down to it.
        names: Names for the new layers.
        masks: Weights to keep; the others become zero.

    Returns:
        The new layers. An empty list for a layer that is noise only.
    """
    if isinstance(operation, SparseSource) or (
        type(operation) in _PLAIN_KERNELS
    ):
        return [_mean_layer(operation, names.take(operation, path), masks)]
    inner = _layers_inside(operation)
    if inner is not None:
        replacements = []
        for number, layer in enumerate(inner, 1):
            if number == len(inner):
                names.inherit(layer, operation)
            inside = f"{path}/{layer.name}"
            replacements += plain_replacements(layer, inside, names, masks)
        return [
            Replacement(each.layer, each.load, alone=True)
            for each in replacements
        ]
    if type(operation) in _PLAIN_NOISE:
        return _plain_noise(operation, path, names)
    if type(operation) is keras.layers.TimeDistributed:
        return _time_distributed(operation, path, names, masks)
    for layer in private_keras.all_layers(operation):
        if _needs_this_package(layer):
            raise BayesdropError(
                f"Layer `{path}` has no plain form. Expected layers of Keras, "
                "or layers of this package that have one. Received: "
                f"{type(operation).__name__}"
                + ("" if layer is operation else f" with `{layer.name}` inside")
            )
    return [copy_layer(operation, names.take(operation, path), masks)]


def _layers_inside(operation: Any) -> list[Any] | None:
    """Returns the layers, in order, that a layer consists of, or `None`."""
    if isinstance(operation, PlainInside):
        return operation.plain_layers()
    if isinstance(operation, NoiseThenLayer):
        return list(operation.noise_then_layer())
    if isinstance(operation, NoiseSource):
        noise, _ = operation.noise_site()
        if type(noise).expected is Noise.expected:
            return []
    return None


def _mean_layer(layer: Any, name: str, masks: KernelMasks) -> Replacement:
    """Returns the plain layer with the means of the weights to keep."""
    with keras.saving.custom_object_scope(user_defined_objects(layer)):
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

    return Replacement(new, load, alone=True)


def _plain_noise(layer: Any, path: str, names: LayerNames) -> list[Replacement]:
    """Returns the Keras layer with the same noise, if there is one."""
    config = layer.get_config()
    plain = _PLAIN_NOISE[type(layer)]
    noise = config.pop("noise", "bernoulli")
    if noise == "gaussian":
        plain = keras.layers.GaussianDropout
        del config["noise_shape"]
    elif noise != "bernoulli":
        return []
    config["name"] = names.take(layer, path)
    return [Replacement(plain.from_config(config), alone=True)]


def _time_distributed(
    wrapper: Any, path: str, names: LayerNames, masks: KernelMasks
) -> list[Replacement]:
    inside = f"{path}/{wrapper.layer.name}"
    # The name of an inner layer need not be unique in the model.
    replacements = plain_replacements(
        wrapper.layer, inside, LayerNames(()), masks
    )
    if len(replacements) > 1:
        raise BayesdropError(
            f"Layer `{path}` has no plain form. Expected a wrapper around one "
            f"plain layer. Received: {type(wrapper).__name__} around "
            f"{len(replacements)} layers"
        )
    name = names.take(wrapper, path)
    return [
        Replacement(
            keras.layers.TimeDistributed(
                each.layer,
                name=name,
                trainable=wrapper.trainable,
                dtype=wrapper.dtype_policy,
            ),
            each.load,
            each.alone,
        )
        for each in replacements
    ]


def _needs_this_package(layer: Any) -> bool:
    return any(
        cls.__module__.split(".")[0] == PACKAGE for cls in type(layer).__mro__
    )
