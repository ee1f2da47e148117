# SPDX-License-Identifier: Apache-2.0
"""From what a user writes for a prior to the prior."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.priors.base import ScalePrior
from keras_bayesdrop.priors.half_cauchy import HalfCauchy
from keras_bayesdrop.priors.inverse_gamma import InverseGamma
from keras_bayesdrop.priors.log_uniform import LogUniform

_NAMED = {
    "inverse_gamma": InverseGamma,
    "half_cauchy": HalfCauchy,
    "log_uniform": LogUniform,
}


def get(identifier: Any, name: str = "prior") -> ScalePrior:
    """Returns the scale prior that an identifier stands for.

    Args:
        identifier: A `ScalePrior`; or `"inverse_gamma"`, `"half_cauchy"` or
            `"log_uniform"`, each with its default arguments; or a config, as
            `keras.saving.serialize_keras_object` makes it.
        name: Name of the argument, for the message of an error.

    Returns:
        The prior.

    Example:
    ```python
    keras_bayesdrop.priors.get("half_cauchy")  # HalfCauchy(eta=1.0, ...)
    ```
    """
    prior = identifier
    if isinstance(identifier, str) and identifier in _NAMED:
        prior = _NAMED[identifier]()
    elif isinstance(identifier, dict) and "class_name" in identifier:
        prior = keras.saving.deserialize_keras_object(identifier)
    if not isinstance(prior, ScalePrior):
        names = ", ".join(repr(each) for each in _NAMED)
        raise invalid(
            name, identifier, f"a `ScalePrior`, its config, or one of {names}"
        )
    return prior
