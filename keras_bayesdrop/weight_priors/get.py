# SPDX-License-Identifier: Apache-2.0
"""Priors by name."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.weight_priors.base import WeightPrior
from keras_bayesdrop.weight_priors.gaussian import Gaussian
from keras_bayesdrop.weight_priors.horseshoe import Horseshoe
from keras_bayesdrop.weight_priors.log_uniform import LogUniform
from keras_bayesdrop.weight_priors.student_t import StudentT

PRIORS: dict[str, type[WeightPrior]] = {
    "log_uniform": LogUniform,
    "gaussian": Gaussian,
    "student_t": StudentT,
    "horseshoe": Horseshoe,
}


def get_prior(identifier: Any, name: str = "prior") -> WeightPrior:
    """Returns the prior that a name, a config or an instance stands for.

    Args:
        identifier: `"log_uniform"`, `"gaussian"`, `"student_t"` or
            `"horseshoe"`, each with its default arguments; a `WeightPrior`; or
            what `keras.saving.serialize_keras_object` makes of one, of which
            `class_name` and `config` suffice.
        name: Name of the caller's argument, for the message of the error.
            Defaults to `"prior"`.

    Returns:
        A `WeightPrior`.

    Raises:
        BayesdropError: If `identifier` is none of these.

    Example:
    ```python
    prior = keras_bayesdrop.weight_priors.get_prior("gaussian")
    wide = {"class_name": "gaussian", "config": {"stddev": 10.0}}
    prior = keras_bayesdrop.weight_priors.get_prior(wide)
    ```
    """
    if isinstance(identifier, WeightPrior):
        return identifier
    if isinstance(identifier, str) and identifier in PRIORS:
        return PRIORS[identifier]()
    if isinstance(identifier, dict) and "class_name" in identifier:
        prior = _from_dict(identifier)
        if prior is not None:
            return prior
    names = ", ".join(repr(each) for each in PRIORS)
    raise invalid(
        name,
        identifier,
        f"one of {names}, a `WeightPrior`, or the config of one",
    )


def _from_dict(description: dict[str, Any]) -> WeightPrior | None:
    """Returns the prior that a dict describes, or `None` if it does not."""
    try:
        if "registered_name" in description:
            prior = keras.saving.deserialize_keras_object(description)
            return prior if isinstance(prior, WeightPrior) else None
        by_class = {each.__name__: each for each in PRIORS.values()}
        prior_class = {**PRIORS, **by_class}[description["class_name"]]
        return prior_class.from_config(description.get("config", {}))
    except (KeyError, TypeError):  # no such class, or no such argument
        return None
