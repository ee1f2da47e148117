# SPDX-License-Identifier: Apache-2.0
"""Decides which noise of a model is drawn, and which is out of reach."""

from typing import Any

from keras_bayesdrop.graph.observe import Hidden
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.sites import Site
from keras_bayesdrop.graph.sites import select_sites
from keras_bayesdrop.graph.survey import Survey
from keras_bayesdrop.graph.survey import survey


def complete(
    model: Any,
    example: Any,
    surveyed: Survey | None,
    layers: LayerSelection,
) -> Survey:
    """Surveys a model again if there is more to see than at first.

    That is where an example has come up since, or where augmentation layers
    are asked for.
    """
    if surveyed is None or not (surveyed.is_complete or example is None):
        surveyed = survey(model, example)
    if layers is None or not surveyed.requestable:
        return surveyed
    asked = active_paths(layers, surveyed) & surveyed.requestable
    if asked <= surveyed.asked:
        return surveyed
    return survey(model, example, asked)


def active_paths(layers: LayerSelection, surveyed: Survey) -> set[str]:
    """Returns the paths of the sites that a selection turns on."""
    sites = list(surveyed.sites)
    if layers is not None:
        return select_sites(layers, sites)
    return {site.path for site in sites} - surveyed.requestable


def drawing_sites(layers: LayerSelection, surveyed: Survey) -> list[Site]:
    """Returns the sites that are turned on and draw, as far as that is known.

    Args:
        layers: Which sites are to be active.
        surveyed: The survey of the model.
    """
    active = active_paths(layers, surveyed)
    return [
        site
        for site in surveyed.sites
        if site.path in active
        and site.noise.active
        and (site.path in surveyed.seen or not surveyed.is_complete)
    ]


def hidden_from(layers: LayerSelection, surveyed: Survey) -> tuple[Hidden, ...]:
    """Returns the noise that a selection wants and nothing can take over.

    What draws in training mode only stays off if other sites are asked for.
    """
    return tuple(
        each for each in surveyed.hidden if each.always or layers is None
    )
