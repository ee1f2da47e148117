# SPDX-License-Identifier: Apache-2.0
"""Checks that a model has noise to sample, before anything is computed."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop._core.warn import warn_user
from keras_bayesdrop.errors import HiddenNoiseError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.graph.survey import Survey
from keras_bayesdrop.plan import active_paths
from keras_bayesdrop.plan import drawing_sites
from keras_bayesdrop.plan import hidden_from
from keras_bayesdrop.plan import hidden_noise
from keras_bayesdrop.plan import reasons_of
from keras_bayesdrop.views import StochasticView
from keras_bayesdrop.views import View

_LAYERS_NAMED = 12
_MOST_SAMPLES = 2**24


def check_num_samples(num_samples: Any) -> int:
    """Returns `num_samples` if they are enough for a variance.

    Samples are counted in float32, which holds whole numbers up to 2^24.
    """
    whole = isinstance(num_samples, Integral) and not isinstance(
        num_samples, bool
    )
    if not whole or not 2 <= num_samples <= _MOST_SAMPLES:
        raise invalid(
            "num_samples",
            num_samples,
            f"an integer of at least 2 and at most {_MOST_SAMPLES} (the "
            "variance of a single sample is undefined; for one function use "
            "`sample_function`)",
        )
    return int(num_samples)


def members_of(model: Any) -> tuple[bool, Sequence[Any]]:
    """Returns whether `model` is an ensemble, and its networks."""
    several = isinstance(model, (list, tuple))
    models = model if several else [model]
    if not models:
        raise invalid("model", model, "a model, or a list of at least one")
    return several, models


def unwrap(
    model: Any, layers: LayerSelection
) -> tuple[keras.Model, LayerSelection]:
    """Returns the model behind stochastic views; refuses other views."""
    check_model(model)
    if isinstance(model, View) and not isinstance(model, StochasticView):
        raise NothingToSampleError(
            f"View `{model.name}` has its noise frozen or off: nothing to "
            "sample. Expected the model itself, or a view made by "
            f"`stochastic`. Received: a {type(model).__name__}"
        )
    return source_of(model, layers)


def check_noise(
    model: Any,
    surveyed: Survey,
    layers: LayerSelection,
    allow_hidden_noise: bool = False,
    may_lack_noise: bool = False,
) -> None:
    """Raises if no noise is active, or if some cannot be reached.

    Args:
        model: The model.
        surveyed: What was found in it.
        layers: Which noise sites are to be active.
        allow_hidden_noise: Whether to warn of noise that cannot be reached,
            and go on without it.
        may_lack_noise: Whether the model may have no noise at all.
    """
    hidden = hidden_from(layers, surveyed)
    if hidden and not allow_hidden_noise:
        raise HiddenNoiseError(hidden_noise(hidden))
    reasons = reasons_of(hidden)
    draws = bool(drawing_sites(layers, surveyed)) or not surveyed.is_complete
    if not draws and not may_lack_noise:
        _raise_nothing(model, surveyed, layers, reasons)
    if not hidden:
        return
    warn_user(
        "Some layers draw noise that cannot be reached: neither the seed nor "
        f"the uncertainty covers it. Use a dropout layer instead. {reasons}"
    )


def _raise_nothing(
    model: Any, surveyed: Survey, layers: LayerSelection, reasons: str
) -> None:
    active = active_paths(layers, surveyed)
    idle = ", ".join(
        f"`{site.path}`"
        for site in surveyed.sites
        if site.noise.active and site.path in active
    )
    seen = [
        f"`{layer.name}` ({type(layer).__name__})" for layer in model.layers
    ]
    named = ", ".join(seen[:_LAYERS_NAMED])
    more = ", ..." if len(seen) > _LAYERS_NAMED else ""
    never = f" Never seen to draw: {idle}." if idle else ""
    asked = ", ".join(f"`{path}`" for path in sorted(surveyed.requestable))
    ask = f" Draws only if named in `layers`: {asked}." if asked else ""
    out_of_reach = f" Out of reach: {reasons}." if reasons else ""
    raise NothingToSampleError(
        f"Model `{model.name}` has no active noise: nothing to sample. "
        "Expected at least one dropout layer with a rate above 0 (such as "
        f"`keras_bayesdrop.MCDropout`). Received: {named}{more}."
        f"{never}{ask}{out_of_reach}"
    )
