# SPDX-License-Identifier: Apache-2.0
"""The learned noise of a kernel: what it is, and which weights share it."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import invalid

# Per parametrisation, what can have an alpha of its own, the default first.
GRANULARITIES = {
    "additive": ("weight",),
    "multiplicative": ("weight", "row", "layer"),
    "correlated": ("row", "layer"),
}
# Initial values: log sigma^2 as published, else log alpha.
_INITIAL = {"additive": -10.0, "multiplicative": -3.0, "correlated": -3.0}


class KernelNoise:
    """The variable `log sigma^2` or `log alpha` of a kernel.

    Args:
        parametrization: `"additive"`, `"multiplicative"` or `"correlated"`.
        alpha: What has a noise of its own, or `None` for the default.
        initializer: Initializer of the variable, or `None` for the default.
    """

    def __init__(
        self,
        parametrization: str = "additive",
        alpha: str | None = None,
        initializer: Any = None,
    ) -> None:
        check_choice(parametrization, "parametrization", tuple(GRANULARITIES))
        self.parametrization = parametrization
        self.alpha = _check_granularity(alpha, parametrization)
        if initializer is None:
            initializer = keras.initializers.Constant(_INITIAL[parametrization])
        self.initializer = keras.initializers.get(initializer)

    def add_variable(self, layer: Any) -> Any:
        """Adds the variable to a layer, with the penalty of the layer."""
        kernel = tuple(layer.kernel.shape)
        shapes = {"weight": kernel, "row": (kernel[-2], 1), "layer": ()}
        additive = self.parametrization == "additive"
        return layer.add_weight(
            name="log_variance" if additive else "log_alpha",
            shape=shapes[self.alpha],
            initializer=self.initializer,
            regularizer=layer.kl_penalty,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the layer's constructor has for it."""
        return {
            "parametrization": self.parametrization,
            "alpha": self.alpha,
            "noise_initializer": keras.initializers.serialize(self.initializer),
        }


def _check_granularity(alpha: Any, parametrization: str) -> str:
    choices = GRANULARITIES[parametrization]
    if alpha is None:
        return choices[0]
    if not isinstance(alpha, str) or alpha not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        expected = f"{options} or `None` with parametrization="
        raise invalid("alpha", alpha, f"{expected}{parametrization!r}")
    return alpha
