# SPDX-License-Identifier: Apache-2.0
"""The likelihood that a compiled loss stands for, and the weight of a nat.

The evidence lower bound counts in nats, summed over the training examples:

    -ELBO = sum{ -log p(y | x, W) } + KL

Keras adds penalties to the mean loss of a batch, which may have another unit:
the squared error is `2 / tau` times a log-likelihood of precision `tau`. A
`Likelihood` tells penalties that are a KL divergence the unit of the loss.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.renamed import check_keywords
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import invalid

_L = TypeVar("_L", bound="Likelihood")

# Squared errors in a unit of loss: log p(y) = -tau / 2 * (y - f)^2 + constant.
TIMES_TAU = {"mse": 2.0, "half_mse": 1.0}

# Arguments of layers and regularizers before there were likelihoods.
# Arguments that `likelihood` replaces.
OLD_KEYWORDS = {
    "loss": "likelihood='nll', or likelihood=GaussianLikelihood("
    "noise_precision) for a squared error",
    "noise_precision": "likelihood=GaussianLikelihood(noise_precision)",
    "num_outputs": "likelihood=GaussianLikelihood(noise_precision, "
    "num_outputs), or likelihood=LikelihoodInNats(num_outputs)",
}


@dataclasses.dataclass(frozen=True)
class Likelihood(abc.ABC):
    """The likelihood that the loss of a compiled model stands for.

    The arguments `likelihood` of layers and regularizers take one. Objects are
    frozen, and are compared by value.
    """

    @abc.abstractmethod
    def loss_per_nat(self, num_train_examples: int) -> float:
        """Returns how much one nat of KL divergence adds to the loss.

        Args:
            num_train_examples: Number of training examples.

        Returns:
            The factor.
        """

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls: type[_L], config: dict[str, Any]) -> _L:
        """Returns the likelihood that `get_config` described."""
        return cls(**config)


@export("keras_bayesdrop.losses.LikelihoodInNats")
@dataclasses.dataclass(frozen=True)
class LikelihoodInNats(Likelihood):
    """A loss that is a negative log-likelihood in nats.

    Cross-entropies are, and so are `GaussianNLL` and
    `HeteroscedasticGaussianNLL`. One nat of KL divergence adds

        1 / (N * D)

    to the loss, for `N` training examples and `D` values per example that the
    loss averages over. The name `"nll"` stands for `D = 1`.

    Args:
        num_outputs: Positive int. Number `D` of values per example that the
            loss averages over, such as the pixels for a cross-entropy per
            pixel. Defaults to `1`.

    Example:
    ```python
    pixels = keras_bayesdrop.losses.LikelihoodInNats(num_outputs=25)
    pixels.loss_per_nat(num_train_examples=1000)  # 0.00004
    keras_bayesdrop.layers.BayesianDense(8, 1000, likelihood=pixels)
    ```
    """

    num_outputs: int = 1

    def __post_init__(self) -> None:
        """Checks the number of outputs."""
        outputs = check_positive_int(self.num_outputs, "num_outputs")
        object.__setattr__(self, "num_outputs", outputs)

    def loss_per_nat(self, num_train_examples: int) -> float:
        """Returns `1 / (N * D)`."""
        return 1.0 / (num_train_examples * self.num_outputs)


@export("keras_bayesdrop.losses.GaussianLikelihood")
@dataclasses.dataclass(frozen=True)
class GaussianLikelihood(Likelihood):
    """A squared error that stands for Gaussian noise of known precision.

    With the observation noise `N(0, 1 / tau)`, one nat of KL divergence adds

        c / (N * D),    c = 2 / tau for "mse", 1 / tau for "half_mse"

    to the loss, for `N` training examples and `D` values per example that the
    loss averages over. For a model that is compiled with `GaussianNLL`, which
    holds the precision itself, use `"nll"`.

    Args:
        noise_precision: Positive float. Inverse variance `tau` of the
            observation noise, in the units of the targets that the loss sees.
        num_outputs: Positive int. Number `D` of values per example that the
            loss averages over: the width of the output. Defaults to `1`.
        loss: `"mse"`, Keras' mean squared error, or `"half_mse"`, half of it.
            Defaults to `"mse"`.

    Example:
    ```python
    likelihood = keras_bayesdrop.losses.GaussianLikelihood(4.0)
    likelihood.loss_per_nat(num_train_examples=500)  # 0.001
    keras_bayesdrop.layers.BayesianDense(8, 500, likelihood=likelihood)
    ```
    """

    noise_precision: float
    num_outputs: int = 1
    loss: str = "mse"

    def __post_init__(self) -> None:
        """Checks the arguments."""
        checked = {
            "noise_precision": check_positive(
                self.noise_precision, "noise_precision"
            ),
            "num_outputs": check_positive_int(self.num_outputs, "num_outputs"),
            "loss": check_choice(self.loss, "loss", tuple(TIMES_TAU)),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def loss_per_nat(self, num_train_examples: int) -> float:
        """Returns `c / (N * D)`."""
        factor = TIMES_TAU[self.loss] / self.noise_precision
        return factor / (num_train_examples * self.num_outputs)


def get_likelihood(identifier: Any) -> Likelihood:
    """Returns the likelihood that a name, a config or an instance stands for.

    Args:
        identifier: `"nll"`, a `Likelihood`, or the dict that
            `keras.saving.serialize_keras_object` makes of one.

    Returns:
        The likelihood.
    """
    likelihood = identifier
    if isinstance(identifier, str) and identifier == "nll":
        likelihood = LikelihoodInNats()
    elif isinstance(identifier, dict) and "class_name" in identifier:
        likelihood = keras.saving.deserialize_keras_object(identifier)
    if not isinstance(likelihood, Likelihood):
        raise invalid(
            "likelihood",
            identifier,
            "'nll', `LikelihoodInNats(num_outputs)`, or, for a squared error, "
            "`GaussianLikelihood(noise_precision)`",
        )
    return likelihood


def refuse_loss_keywords(keywords: Mapping[str, Any]) -> None:
    """Raises if keyword arguments hold an older spelling of `likelihood`."""
    check_keywords(keywords, OLD_KEYWORDS)
