# SPDX-License-Identifier: Apache-2.0
"""Heads: the meaning of one output of a model, in plain Python.

A head is `"regression"`, `"heteroscedastic"`, `"classification"`,
`"noisy_logits"` or `"binary"`, or an object where there is more to say. A model
with several outputs has a head for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import ClassVar

from keras_bayesdrop._core.choice import Choice
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.choice import serialize as serialize
from keras_bayesdrop._core.logit_draws import check_draws
from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError

# exp(80) is finite in float32.
_LARGEST_LIMIT = 80.0


@dataclass(frozen=True)
class Head(Choice):
    """The meaning of one output of a model; the base of all heads.

    A subclass is a frozen dataclass that names its `task` and checks its
    fields in `__post_init__`. `HEADS` lists every subclass.

    Attributes:
        task: The name that stands for a head without options.
        observation: The kind of an observation of the output: `"number"`,
            `"class"` (the number of a class) or `"label"` (0 or 1).
    """

    task: ClassVar[str]
    observation: ClassVar[str]

    def resolved(self) -> "Head":
        """Returns the head of the same output with its logits resolved."""
        return self

    def without_noise(self) -> "Head":
        """Returns the head of the function itself, not of an observation."""
        return self


@dataclass(frozen=True)
class Regression(Head):
    """An output of real numbers, observed with Gaussian noise.

        y ~ N(output, 1 / noise_precision)

    Args:
        noise_precision: Positive float `tau`, the inverse variance of the
            observation noise; or a sequence of them, one for each entry of
            the last axis of the output. `None` if it is not known.

    Example:
    ```python
    Regression(noise_precision=4.0)  # noise of standard deviation 0.5
    Regression(noise_precision=[4.0, 100.0])  # one for each of two outputs
    ```
    """

    task: ClassVar[str] = "regression"
    observation: ClassVar[str] = "number"

    noise_precision: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Checks the precision."""
        if self.noise_precision is not None:
            tau = _check_precision(self.noise_precision)
            object.__setattr__(self, "noise_precision", tau)

    def without_noise(self) -> "Regression":
        """Returns the head without observation noise."""
        return Regression()


class LearnedNoise(Head):
    """Base of the heads of which the model also predicts the noise.

    Either one output has location and log variance on its last axis, the
    locations first; or two outputs of one shape have them.

    Attributes:
        location: Name of the field that says which output has the locations.
    """

    location: ClassVar[str]

    log_variance: str | int | None
    log_variance_limit: float

    def check_noise(self) -> None:
        """Checks the names of outputs and the limit."""
        names = (self.location, "log_variance")
        for name in names:
            value = getattr(self, name)
            known = isinstance(value, (str, int)) or value is None
            if not known or isinstance(value, bool):
                raise invalid(name, value, "the name of an output or `None`")
        first, second = self.sources
        named = (first is not None) + (second is not None)
        if named == 1 or (named == 2 and first == second):
            raise BayesdropError(
                f"{self.location.capitalize()} and log variance are not told "
                "apart. Expected the names of two outputs, or `None` for both. "
                f"Received: {self.named_sources}"
            )
        limit = check_positive(self.log_variance_limit, "log_variance_limit")
        if limit > _LARGEST_LIMIT:
            raise invalid(
                "log_variance_limit", limit, f"a float in (0, {_LARGEST_LIMIT}]"
            )
        object.__setattr__(self, "log_variance_limit", limit)

    @property
    def sources(self) -> tuple[str | int | None, str | int | None]:
        """The outputs with the locations and with the log variances."""
        return getattr(self, self.location), self.log_variance

    @property
    def named_sources(self) -> str:
        """The same as arguments, for messages."""
        first, second = self.sources
        return f"{self.location}={first!r}, log_variance={second!r}"

    @property
    def takes_two(self) -> bool:
        """True if locations and log variances are two outputs of the model."""
        return self.sources[0] is not None


@dataclass(frozen=True)
class Heteroscedastic(LearnedNoise):
    """An output of real numbers, observed with noise that the model predicts.

        y ~ N(m, exp(s)),    s clipped to [-limit, limit]

    The model gives a mean `m` and a log variance `s` for every number. Either
    one output has both on its last axis, the means first, as
    `losses.HeteroscedasticGaussianNLL` takes them; or two outputs of one shape
    have them, and the head says which. One `Predictive` stands for the two, in
    the place of the mean. The place of the log variance is gone: in a dict its
    key, in a list its entry; and a dict or list that held the two alone
    becomes the `Predictive` itself.

    Args:
        mean: Name, key or position of the output with the means. `None` if
            one output has both.
        log_variance: Likewise, of the output with the log variances.
        log_variance_limit: Positive float, at most 80. The limit of the loss,
            `20.0` by default as there.

    Example:
    ```python
    Heteroscedastic()  # one output, [rows, 2 * targets]
    Heteroscedastic(mean="price", log_variance="price_noise")
    ```

    References:
        - [Nix and Weigend, 1994](https://doi.org/10.1109/ICNN.1994.374138).
        - [Kendall and Gal, 2017](https://arxiv.org/abs/1703.04977).
    """

    task: ClassVar[str] = "heteroscedastic"
    observation: ClassVar[str] = "number"
    location: ClassVar[str] = "mean"

    mean: str | int | None = None
    log_variance: str | int | None = None
    log_variance_limit: float = 20.0

    def __post_init__(self) -> None:
        """Checks the names and the limit."""
        self.check_noise()

    def resolved(self) -> "Heteroscedastic":
        """Returns the head without the names of outputs."""
        return Heteroscedastic(log_variance_limit=self.log_variance_limit)

    def without_noise(self) -> "Regression":
        """Returns the head of the means alone."""
        return Regression()


@dataclass(frozen=True)
class LabelHead(Head):
    """Base of the heads of probabilities.

    Args:
        from_logits: Bool. `True` if the output is logits.
    """

    from_logits: bool | None = None

    def __post_init__(self) -> None:
        """Checks `from_logits`."""
        if self.from_logits is not None:
            check_bool(self.from_logits, "from_logits")

    def resolved(self) -> "LabelHead":
        """Returns the head of the probabilities: `from_logits=False`."""
        return type(self)(from_logits=False)


@dataclass(frozen=True)
class Classification(LabelHead):
    """An output of one probability per class, on its last axis.

        p(y = c) = output[c],    or softmax(output)[c] of logits

    Args:
        from_logits: Bool. `True` if the output lacks its softmax. `None`
            takes it from the model's last activation and compiled loss, and
            stands for `False` where there is no model.

    Example:
    ```python
    Classification(from_logits=True)
    ```
    """

    task: ClassVar[str] = "classification"
    observation: ClassVar[str] = "class"


@dataclass(frozen=True)
class NoisyLogits(LearnedNoise):
    """An output of one logit per class, with noise that the model predicts.

        p(y = c) = E softmax(f + exp(s / 2) * e)[c],    e ~ N(0, I),
        s clipped to [-limit, limit]

    The model gives a logit `f` and a log variance `s` for every class. Either
    one output has both on its last axis, the logits first, as
    `losses.NoisyLogitsCrossentropy` takes them; or two outputs of one shape
    have them, and the head says which. One `Predictive` stands for the two, as
    for `Heteroscedastic`. It is that of a classification, and its samples are
    probabilities.

    Within each sample the softmax is averaged over `num_draws` draws of `e`,
    so that the noise of the logits is part of the probabilities of a sample.
    `expected_entropy` then has the noise of the labels that the model learned
    (aleatoric), and `mutual_information` the disagreement of the samples
    (epistemic). Draws come in pairs `e` and `-e`, which have a smaller error
    than independent draws. What is left of the error differs from sample to
    sample and counts as epistemic: it adds at most about `(K - 1) / (2 *
    num_draws)` nats to the mutual information of `K` classes. Take more draws
    for many classes.

    The draws follow from seed, sample, row and unit alone, as masks do. With
    `masks="shared"` all rows of a sample take the same, so that a sample is
    one function of its input; with `masks="independent"` each row takes its
    own. A network without other noise, in an ensemble, takes those of sample
    0 and of shared masks: more draws make it exact.

    Args:
        logits: Name, key or position of the output with the logits. `None` if
            one output has both.
        log_variance: Likewise, of the output with the log variances.
        num_draws: Even positive integer, at most 65536.
        log_variance_limit: Positive float, at most 80. The limit of the loss,
            `20.0` by default as there.

    Example:
    ```python
    NoisyLogits()  # one output, [rows, 2 * classes]
    NoisyLogits(logits="f", log_variance="s", num_draws=256)
    ```

    References:
        - [Kendall and Gal, 2017](https://arxiv.org/abs/1703.04977).
    """

    task: ClassVar[str] = "noisy_logits"
    observation: ClassVar[str] = "class"
    location: ClassVar[str] = "logits"

    logits: str | int | None = None
    log_variance: str | int | None = None
    num_draws: int = 64
    log_variance_limit: float = 20.0

    def __post_init__(self) -> None:
        """Checks the names, the limit and the number of draws."""
        self.check_noise()
        count = check_draws(self.num_draws)
        object.__setattr__(self, "num_draws", count)

    def resolved(self) -> "Classification":
        """Returns the head of the probabilities."""
        return Classification(from_logits=False)


@dataclass(frozen=True)
class Binary(LabelHead):
    """An output whose every element is the probability of a label 1.

        p(y = 1) = output,    or sigmoid(output) of logits

    Args:
        from_logits: Bool. `True` if the output lacks its sigmoid. `None` is
            as in `Classification`.

    Example:
    ```python
    Binary(from_logits=True)
    ```
    """

    task: ClassVar[str] = "binary"
    observation: ClassVar[str] = "label"


# Every kind of head, by the string that stands for it.
HEADS: dict[str, type[Head]] = {
    kind.task: kind
    for kind in (
        Regression,
        Heteroscedastic,
        Classification,
        NoisyLogits,
        Binary,
    )
}


def get(identifier: Any, name: str = "head") -> Any:
    """Returns the head for a name, an object or a serialised head.

    Args:
        identifier: A `Head`; the name of a task; a dict that `serialize`
            returned; or `None`.
        name: Name of the argument, for the error message.

    Returns:
        The head; `None` for `None`.
    """
    if identifier is None:
        return None
    return get_choice(identifier, name, tuple(HEADS.values()))


def _check_precision(value: Any) -> float | tuple[float, ...]:
    """Returns one precision, or a tuple of them of a sequence."""
    name = "noise_precision"
    if hasattr(value, "tolist"):  # An array, or a number of NumPy.
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return check_positive(value, name)
    if not value:
        raise invalid(name, value, "a positive float, or a sequence of them")
    return tuple(check_positive(each, name) for each in value)
