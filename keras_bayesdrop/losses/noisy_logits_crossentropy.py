# SPDX-License-Identifier: Apache-2.0
"""The likelihood of classes whose logits have noise of a learned variance."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.logit_draws import check_draws
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses._likelihood_loss import LikelihoodLoss
from keras_bayesdrop.losses._log_variance import check_limit
from keras_bayesdrop.losses._log_variance import clip_log_variance


@export("keras_bayesdrop.losses.NoisyLogitsCrossentropy")
class NoisyLogitsCrossentropy(LikelihoodLoss):
    """Cross-entropy of classes whose logits have noise of a learned variance.

    Of the `2 * K` outputs for `K` classes, the first half are logits `f` and
    the second half log variances `s`. The noise is drawn `M` times:

        -log p(y | f, s) = -log mean{ softmax(f + exp(s / 2) * e[m])[y] : m },
        e[m] ~ N(0, I)

    in nats, computed as a log of a sum of exponentials. The mean over the
    examples is the loss. A network learns large variances where labels
    contradict each other, and so takes their gradients back there.

    Draws come in pairs `e` and `-e`. They are new at every step, and the same
    number of them in training and in validation. The loss of few draws is too
    large on average, since `-log` is convex; its minimum moves little.

    Log variances are clipped to `[-limit, limit]`, and gradients pass the clip
    unchanged, as in `HeteroscedasticGaussianNLL`. A label that is no class
    number makes the loss NaN.

    Args:
        num_draws: Even positive integer `M`. Memory and time of the loss grow
            with it. Defaults to `32`.
        log_variance_limit: Positive float, at most 80. Defaults to `20.0`.
        seed: Integer for draws that can be repeated; `None` for others.
        reduction: As in `keras.losses.Loss`. Defaults to
            `"sum_over_batch_size"`, the mean over the examples.
        name: Name of the loss. Defaults to `"noisy_logits_crossentropy"`.
        dtype: Dtype to compute in, at least float32.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(50, activation="relu"),
        keras_bayesdrop.layers.MCDropout(0.1),
        keras.layers.Dense(2 * 10),  # logits and log variances of 10 classes
    ])
    loss = keras_bayesdrop.losses.NoisyLogitsCrossentropy(num_draws=32)
    model.compile("adam", loss)
    ```

    Labels are class numbers. `predict_with_uncertainty` reads the outputs of
    such a model by the head `NoisyLogits`.

    References:
        - [Kendall and Gal, 2017](https://arxiv.org/abs/1703.04977),
          equation 12.
    """

    def __init__(
        self,
        num_draws: int = 32,
        log_variance_limit: float = 20.0,
        seed: int | None = None,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "noisy_logits_crossentropy",
        dtype: Any = None,
    ) -> None:
        self.num_draws = check_draws(num_draws)
        self.log_variance_limit = check_limit(log_variance_limit)
        self.seed = None if seed is None else check_int(seed, "seed")
        self._generator = keras.random.SeedGenerator(self.seed)
        super().__init__(reduction, name, dtype)

    def _log_density(self, y_true: Any, y_pred: Any) -> Any:
        logits, raw = _split(y_true, y_pred)
        scale = keras.ops.exp(
            0.5 * clip_log_variance(raw, self.log_variance_limit)
        )
        classes = logits.shape[-1]
        numbers = keras.ops.cast(y_true[..., 0], "int32")
        chosen = keras.ops.one_hot(numbers, classes, dtype=logits.dtype)
        shape = (self.num_draws // 2, *keras.ops.shape(logits))
        draws = keras.random.normal(
            shape, dtype=logits.dtype, seed=self._generator
        )
        noise = scale * keras.ops.concatenate([draws, -draws])
        logs = keras.ops.log_softmax(logits + noise, axis=-1)
        # The logs of other classes may be -inf, which times zero is NaN.
        of_label = keras.ops.sum(
            keras.ops.where(chosen > 0, logs, 0.0), axis=-1
        )
        density = keras.ops.logsumexp(of_label, axis=0) - math.log(
            self.num_draws
        )
        label = y_true[..., 0]
        is_class = keras.ops.logical_and(
            label == keras.ops.round(label),
            keras.ops.logical_and(label >= 0, label < classes),
        )
        return keras.ops.where(is_class, density, math.nan)[..., None]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_draws": self.num_draws,
            "log_variance_limit": self.log_variance_limit,
            "seed": self.seed,
            "dtype": self.dtype,
        }


def _split(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Returns logits and log variances, if labels fit them."""
    width = y_pred.shape[-1]
    if width is None or width % 2 or width < 4:
        raise BayesdropError(
            "Outputs cannot be split into logits and log variances. Expected "
            "an even number of outputs on the last axis, two for each of at "
            f"least two classes. Received: y_pred.shape={tuple(y_pred.shape)}"
        )
    shape, wanted = tuple(y_true.shape), (*y_pred.shape[:-1], 1)
    fits = len(shape) == len(wanted) and all(
        a is None or b is None or a == b
        for a, b in zip(shape, wanted, strict=True)
    )
    if not fits:
        raise BayesdropError(
            "Labels and outputs do not fit. Expected class numbers, one for "
            f"{width} outputs. Received: y_true.shape={shape}, "
            f"y_pred.shape={tuple(y_pred.shape)}"
        )
    first, second = keras.ops.split(y_pred, 2, axis=-1)
    return first, second
