# SPDX-License-Identifier: Apache-2.0
"""Whether a model can be sampled at all, asked before anything is computed."""

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras

from keras_bayesdrop._validate import check_model
from keras_bayesdrop._validate import invalid
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.sites import LayerSelection
from keras_bayesdrop.sites import Site
from keras_bayesdrop.sites import hidden_noise
from keras_bayesdrop.sites import select_sites
from keras_bayesdrop.views import StochasticView
from keras_bayesdrop.views import View
from keras_bayesdrop.views import source_of

_LAYERS_NAMED = 12
_MOST_SAMPLES = 2**24


def check_num_samples(num_samples: Any) -> int:
    """Returns `num_samples` if a variance can be had of so many.

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


def unwrap(
    model: Any, layers: LayerSelection
) -> tuple[keras.Model, LayerSelection]:
    """Looks through stochastic views; refuses views that have no noise."""
    check_model(model)
    if isinstance(model, View) and not isinstance(model, StochasticView):
        raise NothingToSampleError(
            f"View `{model.name}` has its noise frozen or off: nothing to "
            "sample. Expected the model itself, or a view made by "
            f"`stochastic`. Received: a {type(model).__name__}"
        )
    return source_of(model, layers)


def check_noise(
    model: Any, sites: Sequence[Site], layers: LayerSelection
) -> None:
    """Raises if no noise is active; warns of noise that cannot be reached."""
    hidden = hidden_noise(model, "")
    reasons = "; ".join(f"`{path}`: {why}" for path, why in hidden)
    chosen = select_sites(layers, sites) if layers is not None else None
    active = any(
        site.noise.active and (chosen is None or site.path in chosen)
        for site in sites
    )
    if not active:
        seen = [
            f"`{layer.name}` ({type(layer).__name__})" for layer in model.layers
        ]
        named = ", ".join(seen[:_LAYERS_NAMED])
        more = ", ..." if len(seen) > _LAYERS_NAMED else ""
        out_of_reach = f" Out of reach: {reasons}." if hidden else ""
        raise NothingToSampleError(
            f"Model `{model.name}` has no active noise: nothing to sample. "
            "Expected at least one dropout layer with a rate above 0 (such as "
            f"`keras_bayesdrop.MCDropout`). Received: {named}{more}."
            f"{out_of_reach}"
        )
    if hidden:
        warnings.warn(
            "Some layers draw noise in code of their own, which cannot be "
            "reached: neither the seed nor the uncertainty covers it. Use a "
            f"dropout layer inside instead. {reasons}",
            BayesdropWarning,
            stacklevel=3,
        )
