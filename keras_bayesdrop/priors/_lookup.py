# SPDX-License-Identifier: Apache-2.0
"""Priors by name and by config."""

from typing import Any
from typing import Literal
from typing import overload

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.priors.base import Prior
from keras_bayesdrop.priors.base import ScalePrior
from keras_bayesdrop.priors.base import WeightPrior
from keras_bayesdrop.priors.gaussian_prior import GaussianPrior
from keras_bayesdrop.priors.half_cauchy_scale import HalfCauchyScale
from keras_bayesdrop.priors.horseshoe_prior import HorseshoePrior
from keras_bayesdrop.priors.inverse_gamma_scale import InverseGammaScale
from keras_bayesdrop.priors.log_uniform_prior import LogUniformPrior
from keras_bayesdrop.priors.log_uniform_scale import LogUniformScale
from keras_bayesdrop.priors.student_t_prior import StudentTPrior

_WEIGHTS: dict[str, type[Prior]] = {
    "log_uniform": LogUniformPrior,
    "gaussian": GaussianPrior,
    "student_t": StudentTPrior,
    "horseshoe": HorseshoePrior,
}
_SCALES: dict[str, type[Prior]] = {
    "inverse_gamma": InverseGammaScale,
    "half_cauchy": HalfCauchyScale,
    "log_uniform": LogUniformScale,
}
_KINDS: dict[str, tuple[type[Prior], dict[str, type[Prior]]]] = {
    "weights": (WeightPrior, _WEIGHTS),
    "scales": (ScalePrior, _SCALES),
}


@overload
def get(
    identifier: Any, of: Literal["weights"], name: str = ...
) -> WeightPrior: ...


@overload
def get(
    identifier: Any, of: Literal["scales"], name: str = ...
) -> ScalePrior: ...


@overload
def get(
    identifier: Any, of: None = ..., name: str = ...
) -> WeightPrior | ScalePrior: ...


def get(identifier: Any, of: str | None = None, name: str = "prior") -> Any:
    """Returns the prior that a name, a config or an instance stands for.

    Args:
        identifier: A `WeightPrior` or a `ScalePrior`; or a name, which stands
            for the default arguments: `"log_uniform"`, `"gaussian"`,
            `"student_t"` or `"horseshoe"` for weights, `"inverse_gamma"`,
            `"half_cauchy"` or `"log_uniform"` for scales; or the dict that
            `keras.saving.serialize_keras_object` makes of a prior, of which
            `class_name` and `config` are enough.
        of: `"weights"` or `"scales"` to accept only priors of that kind, or
            `None` for both. `"log_uniform"` is the name of two priors, and
            needs one of the kinds. Defaults to `None`.
        name: Name of the caller's argument, for the error message. Defaults
            to `"prior"`.

    Returns:
        The prior.

    Raises:
        BayesdropError: If `identifier` is not a prior of this kind.

    Example:
    ```python
    keras_bayesdrop.priors.get("half_cauchy")  # HalfCauchyScale(eta=1.0, ...)
    wide = {"class_name": "gaussian", "config": {"stddev": 10.0}}
    keras_bayesdrop.priors.get(wide)  # GaussianPrior(stddev=10.0)
    keras_bayesdrop.priors.get("log_uniform", of="scales")
    ```
    """
    if of is not None:
        check_choice(of, "of", _KINDS)
    kinds = [kind for each, kind in _KINDS.items() if of in (None, each)]
    prior = identifier
    if isinstance(identifier, str):
        prior_class = _class_of(identifier, kinds, name)
        prior = None if prior_class is None else prior_class()
    elif isinstance(identifier, dict) and "class_name" in identifier:
        prior = _by_config(identifier, kinds, name)
    if not isinstance(prior, tuple(base for base, _ in kinds)):
        expected = "; or ".join(_expected(*kind) for kind in kinds)
        raise invalid(name, identifier, expected)
    return prior


def _class_of(
    identifier: Any, kinds: list[Any], name: str
) -> type[Prior] | None:
    """Returns the class that a name stands for, or `None`."""
    classes = [named[identifier] for _, named in kinds if identifier in named]
    if len(classes) > 1:
        raise BayesdropError(
            f"The name {identifier!r} stands for a prior of weights and for a "
            "prior of scales. Expected one of them, such as "
            f"`{classes[0].__name__}()` or `{classes[1].__name__}()`, or the "
            f"argument `of`. Received: {name}={identifier!r}"
        )
    return classes[0] if classes else None


def _by_config(config: dict[str, Any], kinds: list[Any], name: str) -> Any:
    """Returns the prior that a dict describes, or `None`."""
    try:
        if "registered_name" in config:
            return keras.saving.deserialize_keras_object(config)
        by_class = {
            each.__name__: each for _, named in kinds for each in named.values()
        }
        class_name = config["class_name"]
        prior_class = by_class.get(class_name)
        if prior_class is None:
            prior_class = _class_of(class_name, kinds, name)
        if prior_class is None:
            return None
        return prior_class.from_config(config.get("config", {}))
    except (KeyError, TypeError):  # no such class, or no such argument
        return None


def _expected(base: type[Prior], named: dict[str, type[Prior]]) -> str:
    names = ", ".join(repr(each) for each in named)
    return f"one of {names}, a `{base.__name__}`, or the config of one"
