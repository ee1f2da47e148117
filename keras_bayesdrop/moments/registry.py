# SPDX-License-Identifier: Apache-2.0
"""Maps classes of layers to the rules that propagate moments."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.outcome import Outcome

Rule = Callable[[Any, Sequence[MeanVariance]], MeanVariance | Outcome]

_R = TypeVar("_R", bound=Rule)

_rules: dict[type, Rule] = {}


def register_rule(*layer_types: type) -> Callable[[_R], _R]:
    """Makes a function the rule of some classes of layers.

    A rule takes the layer and the moments of its inputs, which may be certain,
    and returns the moments of its output. It may treat units as independent;
    a rule that knows derivatives or covariances returns an `Outcome`.

    Args:
        *layer_types: Classes of layers. Subclasses inherit the rule, unless
            they define their own `call`.

    Returns:
        A decorator that returns its function.

    Example:
    ```python
    @keras_bayesdrop.moments.register_rule(Square)
    def square(layer, inputs):
        (x,) = inputs
        mean, variance = x.mean, x.spread()
        return keras_bayesdrop.moments.MeanVariance(
            mean**2 + variance, 2 * variance**2 + 4 * mean**2 * variance
        )
    ```
    """
    for each in layer_types:
        if not isinstance(each, type):
            raise invalid("layer_types", each, "classes of layers")

    def register(rule: _R) -> _R:
        for each in layer_types:
            _rules[each] = rule
        return rule

    return register


def rule_of(layer: Any) -> Rule | None:
    """Returns the rule of a layer, or `None`.

    It is the rule of the layer's class, or of the class that the layer
    inherits `call` from.
    """
    for cls in type(layer).__mro__:
        if cls in _rules:
            return _rules[cls]
        if "call" in vars(cls):
            return None
    return None


def no_rule_error(layer: Any, path: str) -> PlanError:
    """Returns the error for a layer that has no rule."""
    known = ", ".join(sorted({cls.__name__ for cls in _rules}))
    return PlanError(
        f"Layer `{path}` ({type(layer).__name__}) has no rule for moments, "
        f"and noise reaches it. Expected one of {known}; a rule registered by "
        "`keras_bayesdrop.moments.register_rule`; or fallback='sampling'. "
        f"Received: {type(layer).__name__}"
    )


def masked_error(layer: Any, path: str) -> PlanError:
    """Returns the error for a layer that masks noisy entries."""
    return PlanError(
        f"Layer `{path}` ({type(layer).__name__}) skips masked entries, which "
        "moments do not support. Expected inputs without a mask, or "
        "fallback='sampling'. Received: a masked input"
    )


def table_error(path: str, num_masks: int) -> PlanError:
    """Returns the error for masks that are not independent."""
    return PlanError(
        f"Layer `{path}` has a table of masks, which moments do not support: "
        "all units of a mask come and go together. Expected "
        f"method='sampling' with num_samples={num_masks}, which is exact, or "
        f"fallback='sampling'. Received: a table of {num_masks} masks"
    )
