# SPDX-License-Identifier: Apache-2.0
"""Heads: the meaning of one output of a model, in plain Python.

A head is `"regression"`, `"classification"` or `"binary"`, or an object where
there is more to say. A model with several outputs has a head for each.
"""

from dataclasses import dataclass
from typing import Any
from typing import ClassVar

from keras_bayesdrop._core.choice import Choice
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.choice import serialize as serialize
from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_positive


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
            observation noise. `None` if it is not known.

    Example:
    ```python
    Regression(noise_precision=4.0)  # noise of standard deviation 0.5
    ```
    """

    task: ClassVar[str] = "regression"
    observation: ClassVar[str] = "number"

    noise_precision: float | None = None

    def __post_init__(self) -> None:
        """Checks the precision."""
        if self.noise_precision is not None:
            tau = check_positive(self.noise_precision, "noise_precision")
            object.__setattr__(self, "noise_precision", tau)

    def without_noise(self) -> "Regression":
        """Returns the head without observation noise."""
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
    kind.task: kind for kind in (Regression, Classification, Binary)
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
