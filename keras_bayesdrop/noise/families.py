# SPDX-License-Identifier: Apache-2.0
"""Families of noise by name, and `get`."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.noise.bernoulli import Bernoulli
from keras_bayesdrop.noise.beta import Beta
from keras_bayesdrop.noise.gaussian import Gaussian
from keras_bayesdrop.noise.half_cauchy import HalfCauchy
from keras_bayesdrop.noise.inverse_nakagami import InverseNakagami
from keras_bayesdrop.noise.log_normal import LogNormal
from keras_bayesdrop.noise.multiplicative import Multiplicative
from keras_bayesdrop.noise.rayleigh import Rayleigh
from keras_bayesdrop.noise.uniform import Uniform

# The strength of these families is a rate. The others have parameters with
# defaults.
_WITH_RATE: tuple[type[Bernoulli] | type[Gaussian], ...] = (Bernoulli, Gaussian)
_WITHOUT_RATE: tuple[type[Multiplicative], ...] = (
    Rayleigh,
    InverseNakagami,
    HalfCauchy,
    Beta,
    Uniform,
    LogNormal,
)
NAMES = tuple(cls.kind for cls in (*_WITH_RATE, *_WITHOUT_RATE))


def get(noise: Any, rate: float | None = None) -> Multiplicative:
    """Returns the noise that the arguments of a layer stand for.

    Args:
        noise: Name of a family, an instance of one, or the config of one.
        rate: Float for `"bernoulli"` and `"gaussian"`, and `None` for the
            other families and for instances.

    Returns:
        The noise. Its `normalizer` is finite.

    Example:
    ```python
    keras_bayesdrop.noise.get("bernoulli", 0.5)  # Bernoulli(rate=0.5)
    keras_bayesdrop.noise.get("rayleigh")  # Rayleigh(scale=1.0)
    ```
    """
    if isinstance(noise, str) and noise in NAMES:
        for with_rate in _WITH_RATE:
            if noise == with_rate.kind:
                return with_rate(rate)  # type: ignore[arg-type]
        family = _WITHOUT_RATE[NAMES.index(noise) - len(_WITH_RATE)]
        if rate is not None:
            raise invalid(
                "rate",
                rate,
                f"`None` with noise={noise!r}, whose strength is no rate",
            )
        return family()
    instance = noise
    if isinstance(noise, dict) and "class_name" in noise:
        instance = keras.saving.deserialize_keras_object(noise)
    if not isinstance(instance, Multiplicative):
        options = ", ".join(repr(name) for name in NAMES)
        raise invalid("noise", noise, f"one of {options}, or an instance")
    if rate is not None and rate != getattr(instance, "rate", None):
        raise invalid("rate", rate, f"`None` with noise={instance!r}")
    instance.normalizer  # noqa: B018  (raises for noise without one)
    return instance
