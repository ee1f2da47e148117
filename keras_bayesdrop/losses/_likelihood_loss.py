# SPDX-License-Identifier: Apache-2.0
"""The base class of losses that are negative log-likelihoods.

Such a loss has a method `log_prob(y_true, y_pred)`: the normalised log density
of the targets in nats, one number per example. The loss is minus this number.
"""

from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError


class LikelihoodLoss(keras.losses.Loss):
    """A loss that is minus a log density, in float32 or better.

    Args:
        reduction: As in `keras.losses.Loss`.
        name: Name of the loss.
        dtype: Dtype or dtype policy to compute in. Float32 replaces
            narrower dtypes.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        policy = keras.dtype_policies.get(dtype or keras.config.floatx())
        wide = keras.backend.result_type(policy.compute_dtype, "float32")
        super().__init__(name=name, reduction=reduction, dtype=wide)

    def log_prob(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the log density of the targets in nats.

        Args:
            y_true: Targets `[..., D]`.
            y_pred: Outputs of the model.

        Returns:
            Tensor `[...]`: the sum over the last axis.
        """
        aligned = self._aligned(y_true, y_pred)
        return keras.ops.sum(self._log_density(*aligned), axis=-1)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns minus the log density, one number per example."""
        return -self.log_prob(y_true, y_pred)

    @property
    def in_nats(self) -> bool:
        """True if the loss is minus `log_prob`, in nats."""
        return True

    def _aligned(self, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
        """Returns targets and outputs as tensors of the same rank."""
        y_pred = keras.ops.convert_to_tensor(y_pred, dtype=self.dtype)
        y_true = keras.ops.convert_to_tensor(y_true, dtype=self.dtype)
        if len(y_pred.shape) == 1:
            y_pred = keras.ops.expand_dims(y_pred, -1)
        if len(y_true.shape) == len(y_pred.shape) - 1:
            y_true = keras.ops.expand_dims(y_true, -1)
        return y_true, y_pred

    def _log_density(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the log density of every value, both of the same rank."""
        raise NotImplementedError


def check_same_shape(y_true: Any, location: Any, outputs: str) -> None:
    """Raises if the shapes of targets and outputs differ.

    Otherwise they would be broadcast against each other.

    Args:
        y_true: Targets.
        location: Tensor with a number for each target.
        outputs: Description of the expected outputs, for the message.
    """
    fits = len(y_true.shape) == len(location.shape) and all(
        target is None or output is None or target == output
        for target, output in zip(y_true.shape, location.shape, strict=True)
    )
    if not fits:
        raise BayesdropError(
            f"Targets and outputs do not fit. Expected {outputs}. Received: "
            f"y_true.shape={tuple(y_true.shape)}, and outputs for targets of "
            f"shape {tuple(location.shape)}"
        )
