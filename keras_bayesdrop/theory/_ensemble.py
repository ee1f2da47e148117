# SPDX-License-Identifier: Apache-2.0
"""Builds the deterministic network that averages the dropout ensemble."""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery import LayerNames
from keras_bayesdrop.graph.surgery import Replacement
from keras_bayesdrop.graph.surgery import names_of
from keras_bayesdrop.graph.surgery import plain_replacements
from keras_bayesdrop.graph.surgery import rebuild
from keras_bayesdrop.layers import Masksembles
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoiseSource


def ensemble_network(model: keras.Model) -> keras.Model:
    """Returns the network in which the mean replaces all noise.

        W[l] = f(sum{ w[l, h] E(d[h]) W[h] : h < l })

    In a linear network that is the mean over masks. A logistic unit returns the
    normalised geometric mean (see `nwgm`) over the masks of its own inputs.

    Dropout of Keras and of this package divides by `1 - rate` in training, so
    its factors have mean one. Noise layers are removed, and the weights are
    those of `model`, without scaling. There are two exceptions: a dropout rate
    of one, and `AlphaDropout`, whose mean is `a x` with `a < 1` and which
    becomes a `Rescaling` layer. Weights with noise become their means. Apart
    from these exceptions the network predicts like `deterministic(model)`.

    Dropout inside recurrent and attention layers stays there. It acts in
    training only.

    Args:
        model: A built Functional or Sequential model. Never changed.

    Returns:
        A new model of Keras' layers with its own weights and with nested
        models opened. It is not compiled.

    Example:
    ```python
    plain = keras_bayesdrop.theory.ensemble_network(model)
    plain.save("plain.keras")  # loads without this package
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), eq. 98.
    """
    model = check_source(model)
    graph = check_graph(model)
    names = names_of(model, graph)
    return rebuild(model, graph, names, lambda node: _replace(node, names))


def _replace(node: Node, names: LayerNames) -> list[Replacement]:
    """Returns the layers that replace a node."""
    layer = node.operation
    noise = noise_of(layer)
    if noise is None or isinstance(layer, (WeightNoiseSource, Masksembles)):
        return plain_replacements(layer, node.path, names, {})
    factor = _mean_factor(noise[0])
    if factor == 1.0:
        return []
    scaled = keras.layers.Rescaling(
        factor, name=names.take(layer, node.path), dtype=layer.dtype_policy
    )
    return [Replacement(scaled, alone=True)]


def _mean_factor(noise: Noise) -> float:
    """Returns the mean factor of a noise. The mean summand is zero."""
    if isinstance(noise, Multiplicative):
        return noise.mean / noise.normalizer
    if isinstance(noise, Alpha) and noise.active:
        kept = tf.constant(2**32 - 1, tf.uint32)
        zero, one = (tf.constant(v, tf.float64) for v in (0.0, 1.0))
        slope: Any = noise.apply(one, kept) - noise.apply(zero, kept)
        return (1.0 - noise.rate) * float(slope)
    return 1.0
