# SPDX-License-Identifier: Apache-2.0
"""One scale for all kernels of a block of layers.

    w ~ N(0, sigma0^2 * tau^2) for every weight `w` of every kernel

A block of several weight layers computes the same if one kernel is divided by
a number and another multiplied by it, as long as no activation saturates. With
`tau` on one kernel alone the prior could be had for nothing: that kernel goes
to 0, the next makes up for it, and the density grows for ever.
"""

import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.priors import get


class BlockPrior:
    """The prior, for kernels that are variables or tensors.

    Args:
        scale_prior: Prior of `tau`, as `priors.get` takes it.
        sigma0: Unit of the scale.
        epsilon: Standard deviation that each weight is taken to have about
            its value.
    """

    def __init__(self, scale_prior: Any, sigma0: float, epsilon: float) -> None:
        self.scale_prior = get(scale_prior, of="scales", name="scale_prior")
        self.sigma0 = sigma0
        self.epsilon = epsilon

    def best_variance(self, kernels: Sequence[Any]) -> Any:
        """Returns the `tau^2` that explains kernels best, without gradient."""
        moments = sum(self._moments(kernel) for kernel in kernels)
        count = sum(math.prod(kernel.shape) for kernel in kernels)
        best = self.scale_prior.optimal_variance(moments, count)
        return keras.ops.stop_gradient(best)

    def nats(self, kernel: Any, variance: Any) -> Any:
        """Returns minus the log-density of a kernel at `tau^2`."""
        constant = math.log(2.0 * math.pi) + 2.0 * math.log(self.sigma0)
        terms = math.prod(kernel.shape) * (constant + keras.ops.log(variance))
        return 0.5 * (terms + self._moments(kernel) / variance)

    def _moments(self, kernel: Any) -> Any:
        """Returns the sum of the second moments over sigma0^2."""
        kernel = keras.ops.convert_to_tensor(kernel)
        dtype = keras.backend.result_type(kernel.dtype, "float32")
        squares = keras.ops.square(keras.ops.cast(kernel, dtype) / self.sigma0)
        least = math.prod(kernel.shape) * (self.epsilon / self.sigma0) ** 2
        return keras.ops.sum(squares) + least


def kernels_of(layers: Iterable[Any]) -> list[Any]:
    """Returns the kernels of layers, and of the layers inside, each once.

    Args:
        layers: Keras layers that are built.

    Returns:
        Variables whose name ends in `kernel`, as layers of Keras call what
        multiplies their inputs. Those of layers with a KL divergence are left
        out: they have a prior.
    """
    found: dict[int, Any] = {}
    stack = list(layers)[::-1]
    while stack:
        layer = stack.pop()
        if getattr(layer, "kl_weight", None) is not None:
            continue
        for variable in private_keras.own_variables(layer):
            if variable.name.endswith("kernel"):
                found[id(variable)] = variable
        stack.extend(reversed(private_keras.sublayers(layer)))
    return list(found.values())


def has_scale(layers: Iterable[Any]) -> bool:
    """Whether layers, or those inside, learn a scale of a whole kernel."""
    inner = [
        each for layer in layers for each in private_keras.all_layers(layer)
    ]
    owners = [
        *inner,
        *(
            v.regularizer
            for each in inner
            for v in private_keras.own_variables(each)
        ),
    ]
    return any(getattr(owner, "matrix_prior", None) for owner in owners)
