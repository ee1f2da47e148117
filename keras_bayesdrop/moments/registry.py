# SPDX-License-Identifier: Apache-2.0
"""Which rule takes moments through which layer."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.moments.moments import Outcome

Rule = Callable[[Any, Sequence[Moments]], Moments | Outcome]

_R = TypeVar("_R", bound=Rule)

_rules: dict[type, Rule] = {}


def register_rule(*layer_types: type) -> Callable[[_R], _R]:
    """Makes a function the rule of some classes of layers.

    A rule takes the layer and the moments of its inputs, which may be certain,
    and returns those of its output. It sees every unit as independent of the
    others; return an `Outcome` to say more.

    Args:
        *layer_types: Classes of layers. Subclasses have the rule too, unless
            they write their own `call`.

    Returns:
        A decorator that returns its function.

    Example:
    ```python
    @keras_bayesdrop.moments.register_rule(Square)
    def square(layer, inputs):
        (x,) = inputs
        mean, variance = x.mean, x.spread()
        return keras_bayesdrop.moments.Moments(
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

    That of its class, or of the nearest one that it inherits `call` from.
    """
    for cls in type(layer).__mro__:
        if cls in _rules:
            return _rules[cls]
        if "call" in vars(cls):
            return None
    return None


def no_rule(layer: Any, path: str) -> PlanError:
    """Returns the error for a layer that has no rule."""
    known = ", ".join(sorted({cls.__name__ for cls in _rules}))
    return PlanError(
        f"Layer `{path}` ({type(layer).__name__}) has no rule for moments, "
        f"and noise reaches it. Expected one of {known}; a rule made by "
        "`keras_bayesdrop.moments.register_rule`; or fallback='sampling'. "
        f"Received: {type(layer).__name__}"
    )


def masked(layer: Any, path: str) -> PlanError:
    """Returns the error for a layer that leaves out noisy entries."""
    return PlanError(
        f"Layer `{path}` ({type(layer).__name__}) leaves out entries by a "
        "mask, and moments know none. Expected inputs without a mask, or "
        "fallback='sampling'. Received: a masked input"
    )
