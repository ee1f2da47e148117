# SPDX-License-Identifier: Apache-2.0
"""The rule that decides how an output is read, and its reason.

    a loss of this package             the head that the loss defines
    softmax or sigmoid at the end      classification or binary
    cross-entropy that takes logits    classification or binary of logits
    cross-entropy of probabilities     an error behind a linear activation;
                                       else what it says, if values agree
    anything else                      regression, unless values add up to 1

The first line that applies decides. A head that the caller names is kept.
"""

import dataclasses
from typing import Any

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.compiled_losses import CLASSES
from keras_bayesdrop.prediction.compiled_losses import DISTRIBUTION
from keras_bayesdrop.prediction.compiled_losses import LABELS
from keras_bayesdrop.prediction.compiled_losses import LossMeaning
from keras_bayesdrop.prediction.last_activation import NUMBER
from keras_bayesdrop.prediction.last_activation import LastActivation
from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.heads import Head

AUTO = "auto"

# What the values of the first batch have to show.
NO_CHECK = ""
NOT_CLASSES = "not classes"
IN_UNIT = "in [0, 1]"
ADD_UP = "add up to 1"

_FUNCTIONS = {"classification": "softmax", "binary": "sigmoid"}
_TASKS = {CLASSES: "classification", DISTRIBUTION: "classification"}
_TASKS[LABELS] = "binary"
_CHECKS = {"classification": ADD_UP, "binary": IN_UNIT}
_SPELLINGS = {"classification": "Classification", "binary": "Binary"}


@dataclasses.dataclass(frozen=True)
class Decision:
    """How an output is read, and why.

    Attributes:
        head: The head; `None` if there is a problem.
        reason: Why, in words.
        check: What the values of the first batch have to show, one of the
            constants of this module.
        problem: Message of the error if the output cannot be read.
        noise_behind: Path of noise behind the last activation, if any.
    """

    head: Head | None
    reason: str
    check: str = NO_CHECK
    problem: str = ""
    noise_behind: str = ""

    def require(self) -> Head:
        """Returns the head, or raises if the output cannot be read."""
        if self.head is None:
            raise BayesdropError(self.problem)
        return self.head


def asks_the_model(choice: Any) -> bool:
    """Returns whether a choice leaves anything to the model's activation."""
    if isinstance(choice, str):
        choice = heads.HEADS.get(choice, choice)
    return choice == AUTO or getattr(choice, "from_logits", False) is None


def decide(
    choice: Any, loss: LossMeaning | None, activation: LastActivation
) -> Decision:
    """Decides how an output is read.

    Args:
        choice: `"auto"`, a head or the name of one.
        loss: What its compiled loss says, if it has one.
        activation: Its last activation.

    Returns:
        The decision, with `from_logits` known.
    """
    loss = loss or LossMeaning("no loss")
    if not (isinstance(choice, str) and choice == AUTO):
        return _asked_for(choice, loss, activation)
    if loss.head is not None:
        reason = f"the compiled loss {loss.name}"
        check = NOT_CLASSES if loss.head.task == "regression" else NO_CHECK
        return Decision(loss.head, reason, check)
    if activation.task is not None:
        return _of_activation(activation.task, loss, activation)
    if loss.from_logits:
        return _of_logits(loss)
    if loss.needs_probabilities:
        return _of_probabilities(loss, activation)
    reason = f"{activation.text}, {_compiled_with(loss)}"
    return Decision(heads.Regression(), reason, NOT_CLASSES)


def _asked_for(
    choice: Any, loss: LossMeaning, activation: LastActivation
) -> Decision:
    """Completes a head that the caller names."""
    learned = isinstance(loss.head, heads.LearnedNoise)
    if learned and loss.head is not None and choice == loss.head.task:
        choice = loss.head  # With the limit of the loss.
    head: Head = heads.get(choice)
    if isinstance(loss.head, heads.NoisyLogits) and isinstance(
        head, heads.LabelHead
    ):
        return _problem(
            "The compiled loss takes logits and their log variances, which "
            f"are no {head.task}. Expected head='auto' or "
            f"head='noisy_logits'. Received: head={head!r}, "
            f"loss={loss.name!r}",
            f"the compiled loss {loss.name} takes log variances too",
        )
    if getattr(head, "from_logits", False) is None:
        logits = activation.task is None and loss.from_logits
        head = dataclasses.replace(head, from_logits=logits)  # type: ignore[call-arg]
    return Decision(head, "asked for")


def _of_activation(
    task: str, loss: LossMeaning, activation: LastActivation
) -> Decision:
    """Decides by a softmax or sigmoid."""
    if task == "binary" and loss.meaning == CLASSES:
        return _problem(
            "The last activation and the compiled loss disagree: a sigmoid "
            "gives a probability per label, the loss takes one per class. "
            "Expected activation='softmax', a binary cross-entropy, or "
            "head='binary' or head='classification' to choose. Received: "
            f"{activation.text}, loss={loss.name!r}, head='auto'",
            "the last activation and the compiled loss disagree",
        )
    return Decision(
        dataclasses.replace(heads.get(task), from_logits=False),
        activation.text,
        NO_CHECK if activation.certain else _CHECKS[task],
        noise_behind=activation.noise_behind,
    )


def _of_logits(loss: LossMeaning) -> Decision:
    """Decides by a loss that takes logits."""
    task = _TASKS.get(loss.meaning or "")
    if task is None:
        return _problem(
            "The compiled loss takes logits, and does not say of which "
            "kind. Expected head=Classification(from_logits=True) or "
            "head=Binary(from_logits=True). Received: head='auto', "
            f"loss={loss.name!r}",
            "the compiled loss takes logits of an unknown kind",
        )
    head = dataclasses.replace(heads.get(task), from_logits=True)
    return Decision(head, f"logits for the compiled loss {loss.name}")


def _of_probabilities(
    loss: LossMeaning, activation: LastActivation
) -> Decision:
    """Decides by a loss that takes probabilities, if these can be some."""
    task = _TASKS.get(loss.meaning or "")
    if task is None:
        return _problem(
            "The compiled loss takes probabilities, and does not say of which "
            "kind. Expected activation='softmax' or 'sigmoid' at the end, "
            "head='classification' or head='binary'. Received: "
            f"{activation.text}, loss={loss.name!r}, head='auto'",
            "the compiled loss takes probabilities of an unknown kind",
        )
    if activation.kind == NUMBER:
        return _problem(
            "The compiled loss takes probabilities, and the model does not end "
            f"with a {_FUNCTIONS[task]}. {_expected(task)}. Received: "
            f"{activation.text}, loss={loss.name!r}, head='auto'",
            f"the compiled loss {loss.name} takes probabilities, and the model "
            f"ends with {activation.text}",
        )
    head = dataclasses.replace(heads.get(task), from_logits=False)
    reason = (
        f"the compiled loss {loss.name} takes probabilities; the first batch "
        "has to show them"
    )
    return Decision(
        head,
        reason,
        _CHECKS[task],
        noise_behind=activation.noise_behind,
    )


def _expected(task: str) -> str:
    """Returns the second beat of an error: every spelling that works."""
    head, function = _SPELLINGS[task], _FUNCTIONS[task]
    return (
        f"Expected activation={function!r}; a loss with from_logits=True, or "
        f"head={head}(from_logits=True), if outputs are logits; or "
        "head='regression' if they are numbers"
    )


def not_probabilities(task: str, reason: str, received: str) -> str:
    """Returns the message for values that a decision was wrong about.

    Args:
        task: Task of the decision.
        reason: Its reason.
        received: The values in words.
    """
    return (
        f"The outputs are not the probabilities of a {task} ({reason}). "
        f"{_expected(task)}. Received: {received}, head='auto'"
    )


def _problem(message: str, reason: str) -> Decision:
    return Decision(None, reason, problem=message)


def _compiled_with(loss: LossMeaning) -> str:
    if loss.name == "no loss":
        return "and no compiled loss says otherwise"
    return f"compiled with {loss.name}"
