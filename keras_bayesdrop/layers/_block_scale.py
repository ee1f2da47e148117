# SPDX-License-Identifier: Apache-2.0
"""The learned scale of a block of layers, and its place in the loss."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._block_prior import BlockPrior
from keras_bayesdrop.layers._block_prior import has_scale
from keras_bayesdrop.layers._block_prior import kernels_of
from keras_bayesdrop.layers._kl_weight import KLLayer
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.priors import ScalePrior
from keras_bayesdrop.regularizers._structured import check_epsilon

PLACES = ("inline", "variable")


class BlockScale(KLLayer, ScaleSource):
    """Mixin of a `keras.layers.Layer` with layers in its list `block`.

    Attributes:
        prior: The prior of their kernels, or `None`.
        scale: Scalar variable `tau`, if the layer holds it in one.
    """

    # Of the layer of Keras.
    name: str
    block: list[Any]
    kl_weight: Any = None
    prior: BlockPrior | None = None
    scale: Any = None

    def _init_scale(
        self,
        scale_prior: Any,
        num_train_examples: int | None,
        sigma0: float,
        epsilon: float,
        scales: str,
        likelihood: Any,
    ) -> None:
        """Checks and keeps the arguments; see `ADDResidual` for them."""
        self.sigma0 = check_positive(sigma0, "sigma0")
        self.epsilon = check_epsilon(epsilon)
        self.scales = check_choice(scales, "scales", PLACES)
        if scale_prior is not None:
            self.prior = BlockPrior(scale_prior, self.sigma0, self.epsilon)
            self._init_kl(num_train_examples, likelihood)  # type: ignore[arg-type]
            return
        for name, value, default in (
            ("num_train_examples", num_train_examples, None),
            ("scales", scales, "inline"),
            ("likelihood", likelihood, "nll"),
        ):
            if value != default:
                raise invalid(name, value, f"{default!r} without `scale_prior`")

    def _scale_config(self) -> dict[str, Any]:
        """Returns the arguments of `_init_scale`."""
        config = {
            "sigma0": self.sigma0,
            "epsilon": self.epsilon,
            "scales": self.scales,
        }
        if self.prior is None:
            return config
        prior = keras.saving.serialize_keras_object(self.prior.scale_prior)
        return {**config, **self._kl_config(), "scale_prior": prior}

    def _build_scale(self) -> None:
        """Makes the variables, and puts the penalty on the kernels."""
        if self.prior is None:
            if not has_scale(self.block):
                raise BayesdropError(
                    f"The block of layer `{self.name}` has no scale to learn. "
                    "Expected a `scale_prior` and `num_train_examples`; or "
                    "layers inside with a scale, such as "
                    "`BayesianDense(structure='add')`; or mode='noise'. "
                    "Received: scale_prior=None, mode='em'"
                )
            return
        kernels = kernels_of(self.block)
        if not kernels:
            raise BayesdropError(
                f"The block of layer `{self.name}` has no weights for its "
                "`scale_prior`. Expected a layer with a kernel, and without a "
                "KL divergence of its own. Received: "
                f"{[type(layer).__name__ for layer in self.block]}"
            )
        if self.scales_in_variables:
            self.scale = self.add_weight(  # type: ignore[attr-defined]
                name="scale",
                shape=(),
                initializer="ones",
                trainable=False,
                dtype="float32",
                autocast=False,
            )
        for index, kernel in enumerate(kernels):
            before = kernel.regularizer
            if isinstance(before, _Share):
                # Of a layer that was made with the same block: the weights
                # are there once, and so is their prior.
                before = before.before
            kernel.regularizer = _Share(self, index == 0, before)

    @property
    def matrix_prior(self) -> ScalePrior | None:
        """The prior of the scale, or `None`."""
        return None if self.prior is None else self.prior.scale_prior

    @property
    def scales_in_variables(self) -> bool:
        """Whether the layer holds its scale in a variable."""
        return self.scales == "variable"

    def learned_scales(self) -> GroupScales:
        """Returns the scale that the prior has now.

        Returns:
            A named tuple with the scale `tau` as `matrix`, a NumPy scalar in
            units of `sigma0`, or `None` if there is no `scale_prior`; and
            `None` as `rows`.
        """
        if self.prior is None:
            return GroupScales(None, None)
        scale = keras.ops.sqrt(self._variance())
        return GroupScales(None, keras.ops.convert_to_numpy(scale))

    def update_scales(self) -> None:
        """Assigns the best scale for the weights: the M-step.

        Raises:
            BayesdropError: If the layer holds no scale in a variable.
        """
        if self.prior is None or not self.scales_in_variables:
            raise BayesdropError(
                f"Layer `{self.name}` ({type(self).__name__}) has no scale to "
                "update. Expected a `scale_prior`, and scales='variable'. "
                f"Received: scales={self.scales!r}"
            )
        best = self.prior.best_variance(kernels_of(self.block))
        self.scale.assign(keras.ops.sqrt(best))

    def kl_divergence(self) -> Any:
        """Returns minus the log-density of the weights in nats, a scalar.

        Up to a constant, that is the KL of weights without a posterior.
        """
        assert self.prior is not None
        variance = self._variance()
        kernels = kernels_of(self.block)
        return sum(self.prior.nats(kernel, variance) for kernel in kernels)

    def _variance(self) -> Any:
        """Returns `tau^2`, a tensor without gradient."""
        assert self.prior is not None
        if self.scales_in_variables:
            return keras.ops.square(keras.ops.convert_to_tensor(self.scale))
        return self.prior.best_variance(kernels_of(self.block))


class _Share(keras.regularizers.Regularizer):
    """What the prior of a block adds to the loss by one of its kernels.

    Each kernel has its own term, so that freezing one leaves the others alone.

    Args:
        layer: The layer.
        first: Whether the prior of the scale is counted here.
        before: What the kernel has been regularized by, or `None`.
    """

    def __init__(self, layer: BlockScale, first: bool, before: Any) -> None:
        self._layer = layer
        self._first = first
        self.before = before

    def __call__(self, x: Any) -> Any:
        """Returns the penalty for a kernel, a scalar in float32 or better."""
        layer = self._layer
        assert layer.prior is not None
        variance = layer._variance()
        nats = layer.prior.nats(x, variance)
        if self._first:
            nats = nats - layer.prior.scale_prior.log_prob(variance)
        per_nat = layer.likelihood.loss_per_nat(layer.num_train_examples)
        weight = keras.ops.cast(layer.kl_weight, nats.dtype)
        penalty = weight * (per_nat * nats)
        if self.before is None:
            return penalty
        return penalty + keras.ops.cast(self.before(x), nats.dtype)
