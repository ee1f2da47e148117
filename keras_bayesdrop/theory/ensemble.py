# SPDX-License-Identifier: Apache-2.0
"""The deterministic network that stands for the dropout ensemble."""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.graph.sites import noise_of
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery.copies import Part
from keras_bayesdrop.graph.surgery.names import Names
from keras_bayesdrop.graph.surgery.plain import plain_parts
from keras_bayesdrop.graph.surgery.rebuild import names_of
from keras_bayesdrop.graph.surgery.rebuild import rebuild
from keras_bayesdrop.noise import Alpha
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoiseSource


def ensemble_network(model: keras.Model) -> keras.Model:
    """Returns the network in which all noise has its mean.

        W[l] = f(sum{ w[l, h] E(d[h]) W[h] : h < l })

    In a linear network that is the mean over masks. A logistic unit has the
    normalised geometric mean (see `nwgm`) over the masks of its own inputs.

    Dropout of Keras and of this package divides by `1 - rate` in training, so
    its factors have mean one: the weights are those of `model`, and noise
    layers are gone. Nothing is scaled. The exceptions are `AlphaDropout`,
    whose mean is `a x` with `a < 1` (a `Rescaling` layer stands for it), and a
    rate of one. Weights with noise become their means. So it predicts what
    `deterministic(model)` does, but for those two.

    Dropout inside recurrent and attention layers stays in them, where it acts
    in training only.

    Args:
        model: A built Functional or Sequential model. Never changed.

    Returns:
        A new model of Keras' own layers with weights of its own, nested
        models opened, not compiled.

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
    done: dict[int, list[Part]] = {}

    def parts_of(node: Node) -> list[Part]:
        key = id(node.operation)
        if key not in done:
            done[key] = _parts(node, names)
        return done[key]

    return rebuild(model, graph, names, parts_of)


def _parts(node: Node, names: Names) -> list[Part]:
    """Returns the layers that stand for a node."""
    layer = node.operation
    noise = noise_of(layer)
    if noise is None or isinstance(layer, WeightNoiseSource):
        return plain_parts(layer, node.path, names, {})
    factor = _mean_factor(noise[0])
    if factor == 1.0:
        return []
    scaled = keras.layers.Rescaling(
        factor, name=names.take(layer, node.path), dtype=layer.dtype_policy
    )
    return [Part(scaled, alone=True)]


def _mean_factor(noise: Noise) -> float:
    """Returns what noise multiplies its input by on average.

    No noise adds anything on average.
    """
    if isinstance(noise, Multiplicative):
        return noise.mean / noise.normalizer
    if isinstance(noise, Alpha) and noise.active:
        kept = tf.constant(2**32 - 1, tf.uint32)
        zero, one = (tf.constant(v, tf.float64) for v in (0.0, 1.0))
        slope: Any = noise.apply(one, kept) - noise.apply(zero, kept)
        return (1.0 - noise.rate) * float(slope)
    return 1.0
