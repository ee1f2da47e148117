# SPDX-License-Identifier: Apache-2.0
"""The weight decay that belongs to a dropout rate, and its inverse.

Dropout before a kernel W draws, for each input unit, a row of weights that is
either zero or W / (1 - rate). Keras scales the units that it keeps, so that
the mode of the posterior is M = W / (1 - rate), not W. For a posterior of small
width, and the prior N(0, 1 / l^2),

    KL = (1 - rate) * l^2 / 2 * sum(M^2) + constant
       = l^2 / (2 * (1 - rate)) * sum(W^2) + constant

The constant contains the width and the entropy of the mask, but no weight.
"""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.losses.likelihood import OLD_KEYWORDS
from keras_bayesdrop.losses.likelihood import GaussianLikelihood
from keras_bayesdrop.losses.likelihood import get_likelihood


@export("keras_bayesdrop.regularizers.DropoutL2")
class DropoutL2(keras.regularizers.Regularizer):
    """The weight decay under which training with dropout is Bayesian.

    The penalty on a kernel whose inputs are dropped is

        penalty = weight_decay * sum(W^2)
        weight_decay = c * l^2 / (2 * (1 - rate) * N * D)

    with `l` the `length_scale` of the prior `W ~ N(0, 1 / l^2)`, `N` the number
    of training examples, `D` the number of outputs, `tau` the precision of the
    observation noise, and `c` by the loss the model is compiled with:

    - Keras' mean squared error: `c = 2 / tau`;
    - half of it: `c = 1 / tau`;
    - a log-likelihood in nats, such as cross-entropy: `c = 1`.

    The loss plus this penalty is then, up to a constant, `c / D` times the
    negative evidence lower bound per training example.

    `rate` is the probability of *dropping*. The formula is for the scaling of
    `keras.layers.Dropout` and `MCDropout`, which divide the units that they
    keep by `1 - rate`. For dropout without scaling, `1 - rate` is a factor
    instead, as in the paper's `l^2 * p / (2 * N * tau)` with `p = 1 - rate`.

    For a bias, or a kernel whose inputs are not dropped, use `rate=0`. The
    formula is for Bernoulli masks only.

    Args:
        rate: Float in `[0, 1)`. Rate of the dropout before the kernel.
        length_scale: Positive float. Prior length scale `l`: the prior
            standard deviation of a weight is `1 / l`.
        num_train_examples: Positive int. Number of training examples `N`.
        likelihood: The likelihood that the model's loss stands for: `"nll"`
            for a negative log-likelihood in nats,
            `keras_bayesdrop.losses.GaussianLikelihood(noise_precision)` for a
            squared error, or another `keras_bayesdrop.losses.Likelihood`.
        **kwargs: Must be empty. An older spelling of `likelihood` raises an
            error with the new one.

    Example:
    ```python
    decay = keras_bayesdrop.regularizers.DropoutL2(
        rate=0.1,
        length_scale=1.0,
        num_train_examples=500,
        likelihood=keras_bayesdrop.losses.GaussianLikelihood(4.0),
    )
    model = keras.Sequential([
        keras.layers.Dense(50, activation="relu"),
        keras_bayesdrop.layers.MCDropout(0.1),
        keras.layers.Dense(1, kernel_regularizer=decay),
    ])
    model.compile("adam", "mse")
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02157),
          the appendix with the derivation; its proposition 1 gives the KL.
    """

    @refuse_old_keywords(OLD_KEYWORDS)
    def __init__(
        self,
        rate: float,
        length_scale: float,
        num_train_examples: int,
        likelihood: Any = None,
    ) -> None:
        self.rate = check_rate(rate, below_one=True)
        self.length_scale = check_positive(length_scale, "length_scale")
        self.num_train_examples = check_positive_int(
            num_train_examples, "num_train_examples"
        )
        self.likelihood = get_likelihood(likelihood)

    @property
    def weight_decay(self) -> float:
        """The factor of `sum(W^2)`: what `keras.regularizers.L2` takes."""
        per_nat = self.likelihood.loss_per_nat(self.num_train_examples)
        return per_nat * _nats(self.rate, self.length_scale)

    def __call__(self, x: Any) -> Any:
        """Returns the penalty for the weights `x`, in float32 or better."""
        dtype = keras.backend.result_type(x.dtype, "float32")
        squares = keras.ops.square(keras.ops.cast(x, dtype))
        return self.weight_decay * keras.ops.sum(squares)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "rate": self.rate,
            "length_scale": self.length_scale,
            "num_train_examples": self.num_train_examples,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
        }


def model_precision(
    rate: float,
    length_scale: float,
    weight_decay: float,
    num_train_examples: int,
    loss: str = "mse",
    num_outputs: int = 1,
) -> float:
    """Returns the noise precision that a weight decay implies.

    It is the inverse of `DropoutL2`. A model trained with dropout and with
    `keras.regularizers.L2(weight_decay)` on the kernel behind it assumes
    observation noise of precision

        tau = c * l^2 / (2 * (1 - rate) * N * D * weight_decay)

    with `c = 2` for `loss="mse"` and `c = 1` for `loss="half_mse"`. Add the
    variance `1 / tau` to that of the sampled predictions.

    As in `DropoutL2`, `rate` is the probability of dropping, and kept units
    are divided by `1 - rate`.

    Args:
        rate: Float in `[0, 1)`. Rate of the dropout before the kernel.
        length_scale: Positive float. Prior length scale `l`.
        weight_decay: Positive float. Factor of `sum(W^2)` in the loss.
        num_train_examples: Positive int. Number of training examples `N`.
        loss: `"mse"` or `"half_mse"`. Defaults to `"mse"`.
        num_outputs: Positive int. Number `D` of values per example that the
            loss averages over. Defaults to `1`.

    Returns:
        The precision, in inverse squared units of the targets that the loss
        sees. If the targets were divided by `s`, the precision of the raw
        targets is `tau / s^2`.

    Example:
    ```python
    tau = keras_bayesdrop.regularizers.model_precision(
        rate=0.1, length_scale=1.0, weight_decay=1e-3, num_train_examples=500
    )  # 2.22
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02157),
          the appendix with the derivation.
    """
    # The decay is inversely proportional to the precision.
    unit = GaussianLikelihood(1.0, num_outputs, loss)
    nats = _nats(
        check_rate(rate, below_one=True),
        check_positive(length_scale, "length_scale"),
    )
    examples = check_positive_int(num_train_examples, "num_train_examples")
    decay = check_positive(weight_decay, "weight_decay")
    return unit.loss_per_nat(examples) * nats / decay


def _nats(rate: float, length_scale: float) -> float:
    """Returns the factor of `sum(W^2)` in the KL."""
    return length_scale**2 / (2.0 * (1.0 - rate))
