# SPDX-License-Identifier: Apache-2.0
"""A prior with one scale for all kernels of a block of layers.

    w ~ N(0, sigma0^2 * tau^2) for every weight `w` of every kernel

A block of several weight layers computes the same if one kernel is divided by
a number and another multiplied by it, as long as no activation saturates. With
`tau` on one kernel alone the penalty would have no lower bound: that kernel
goes to 0, the next makes up for it, and the density grows for ever.
"""

import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._gaussian.structured_prior import PLACES
from keras_bayesdrop.layers._kl_penalty import KLPenalty
from keras_bayesdrop.priors import get
from keras_bayesdrop.regularizers._structured import check_epsilon


class BlockPrior:
    """The prior of a block's kernels, and its scale.

    Args:
        scale_prior: Prior of `tau`, as `priors.get` takes it; `None` if the
            block has no prior of its own.
        sigma0: Unit of the scale.
        epsilon: Standard deviation that each weight is taken to have about
            its value.
        scales: `"inline"` or `"variable"`, where the scale is held.

    Attributes:
        scale: Scalar variable `tau`, if there is one.
    """

    def __init__(
        self, scale_prior: Any, sigma0: float, epsilon: float, scales: str
    ) -> None:
        self.sigma0 = check_positive(sigma0, "sigma0")
        self.epsilon = check_epsilon(epsilon)
        self.scales = check_choice(scales, "scales", PLACES)
        self.scale_prior = None
        if scale_prior is not None:
            self.scale_prior = get(scale_prior, of="scales", name="scale_prior")
        self.scale: Any = None

    @property
    def in_variables(self) -> bool:
        """True if a variable holds the scale."""
        return self.scales == "variable"

    def build(self, layer: Any) -> None:
        """Makes the variable, and puts the penalty on a layer's kernels.

        Args:
            layer: A layer with layers in its list `block`, and `kl_penalty`.
        """
        if self.scale_prior is None:
            _require_scale(layer)
            return
        kernels = kernels_of(layer.block)
        if not kernels:
            raise BayesdropError(
                f"The block of layer `{layer.name}` has no weights for its "
                "`scale_prior`. Expected a layer with a kernel, and without a "
                "KL divergence of its own. Received: "
                f"{[type(each).__name__ for each in layer.block]}"
            )
        if self.in_variables:
            self.scale = layer.add_weight(
                name="scale",
                shape=(),
                initializer="ones",
                trainable=False,
                dtype="float32",
                autocast=False,
            )
        for index, kernel in enumerate(kernels):
            before = kernel.regularizer
            if isinstance(before, _KernelPenalty):
                # Another layer has the same block: its weights count once, and
                # so does their prior.
                before = before.before
            kernel.regularizer = _KernelPenalty(
                self, layer.kl_penalty, layer.block, index == 0, before
            )

    def variance(self, block: Iterable[Any]) -> Any:
        """Returns `tau^2` for a block of layers, without gradient."""
        if self.in_variables:
            return keras.ops.square(keras.ops.convert_to_tensor(self.scale))
        return self._best_variance(kernels_of(block))

    def update_scale(self, block: Iterable[Any]) -> None:
        """Assigns the best scale for a block of layers to the variable."""
        best = self._best_variance(kernels_of(block))
        self.scale.assign(keras.ops.sqrt(best))

    def block_nats(self, block: Iterable[Any]) -> Any:
        """Returns minus the log-density of all kernels, a scalar."""
        layers = list(block)
        variance = self.variance(layers)
        return sum(self.nats(each, variance) for each in kernels_of(layers))

    def nats(self, kernel: Any, variance: Any) -> Any:
        """Returns minus the log-density of a kernel at `tau^2`."""
        constant = math.log(2.0 * math.pi) + 2.0 * math.log(self.sigma0)
        terms = math.prod(kernel.shape) * (constant + keras.ops.log(variance))
        return 0.5 * (terms + self._moments(kernel) / variance)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the layer's constructor has for it."""
        config = {
            "sigma0": self.sigma0,
            "epsilon": self.epsilon,
            "scales": self.scales,
        }
        if self.scale_prior is None:
            return config
        prior = keras.saving.serialize_keras_object(self.scale_prior)
        return {**config, "scale_prior": prior}

    def _best_variance(self, kernels: Sequence[Any]) -> Any:
        """Returns the `tau^2` that explains kernels best, without gradient."""
        assert self.scale_prior is not None
        moments = sum(self._moments(kernel) for kernel in kernels)
        count = sum(math.prod(kernel.shape) for kernel in kernels)
        best = self.scale_prior.optimal_variance(moments, count)
        return keras.ops.stop_gradient(best)

    def _moments(self, kernel: Any) -> Any:
        """Returns the sum of the second moments over sigma0^2."""
        kernel = keras.ops.convert_to_tensor(kernel)
        dtype = keras.backend.result_type(kernel.dtype, "float32")
        squares = keras.ops.square(keras.ops.cast(kernel, dtype) / self.sigma0)
        least = math.prod(kernel.shape) * (self.epsilon / self.sigma0) ** 2
        return keras.ops.sum(squares) + least


class _KernelPenalty(keras.regularizers.Regularizer):
    """The penalty of a block's prior for one of its kernels.

    Each kernel has its own term, so that freezing one leaves the others alone.

    Args:
        prior: Of the block.
        penalty: Weighs nats for the loss.
        block: The layers.
        first: Whether the prior of the scale is counted here.
        before: Regularizer that the kernel had before, or `None`.
    """

    def __init__(
        self,
        prior: BlockPrior,
        penalty: KLPenalty,
        block: Sequence[Any],
        first: bool,
        before: Any,
    ) -> None:
        self._prior = prior
        self._penalty = penalty
        self._block = block
        self._first = first
        self.before = before

    def __call__(self, x: Any) -> Any:
        """Returns the penalty for a kernel, a scalar in float32 or better."""
        prior = self._prior
        assert prior.scale_prior is not None
        variance = prior.variance(self._block)
        nats = prior.nats(x, variance)
        if self._first:
            nats = nats - prior.scale_prior.log_prob(variance)
        penalty = self._penalty.weigh(nats)
        if self.before is None:
            return penalty
        return penalty + keras.ops.cast(self.before(x), nats.dtype)


def kernels_of(layers: Iterable[Any]) -> list[Any]:
    """Returns the kernels of layers, and of the layers inside, each once.

    Args:
        layers: Keras layers that are built.

    Returns:
        Variables whose name ends in `kernel`, as Keras' layers call what
        multiplies their inputs. Those of layers with a KL divergence are left
        out: they have a prior.
    """
    kernels: dict[int, Any] = {}
    stack = list(layers)[::-1]
    while stack:
        layer = stack.pop()
        if getattr(layer, "kl_weight", None) is not None:
            continue
        for variable in private_keras.own_variables(layer):
            if variable.name.endswith("kernel"):
                kernels[id(variable)] = variable
        stack.extend(reversed(private_keras.sublayers(layer)))
    return list(kernels.values())


def _require_scale(layer: Any) -> None:
    """Raises unless layers of a block learn a scale of a whole kernel."""
    inner = [
        each for part in layer.block for each in private_keras.all_layers(part)
    ]
    regularizers = [
        variable.regularizer
        for each in inner
        for variable in private_keras.own_variables(each)
    ]
    owners = (*inner, *regularizers)
    if not any(getattr(owner, "matrix_prior", None) for owner in owners):
        raise BayesdropError(
            f"The block of layer `{layer.name}` has no scale to learn. "
            "Expected a `scale_prior` and `num_train_examples`; or layers "
            "inside with a scale, such as `BayesianDense(structure='add')`; or "
            "mode='noise'. Received: scale_prior=None, mode='em'"
        )
