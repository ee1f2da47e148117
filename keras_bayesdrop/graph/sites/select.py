# SPDX-License-Identifier: Apache-2.0
"""Choosing noise sites by name, regular expression, or predicate."""

import re
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.graph.sites.site import Site

LayerPattern = str | re.Pattern[str] | Callable[[Any], bool]
LayerSelection = LayerPattern | Iterable[LayerPattern] | None


def select_sites(layers: LayerSelection, sites: Iterable[Site]) -> set[str]:
    """Returns the paths of the sites that `layers` chooses.

    Args:
        layers: `None` for all; a string, which matches a layer's name or path
            exactly or as a regular expression of the whole; a compiled
            pattern, which is searched for in the path; a predicate of the
            layer; or a sequence of these.
        sites: The sites to choose from.

    Returns:
        Set of paths.
    """
    sites = list(sites)
    if layers is None:
        return {site.path for site in sites}
    chosen: set[str] = set()
    for pattern in _patterns(layers):
        matched = {site.path for site in sites if _matches(pattern, site)}
        if not matched:
            known = ", ".join(f"'{site.path}'" for site in sites) or "none"
            raise SelectionError(
                "An entry of `layers` matches no noise site. Expected a name, "
                "path, regular expression or predicate that matches at least "
                f"one of: {known}. Received: {pattern!r}"
            )
        chosen |= matched
    return chosen


def _patterns(layers: Any) -> list[LayerPattern]:
    single = isinstance(layers, (str, re.Pattern)) or callable(layers)
    patterns = [layers] if single else layers
    try:
        patterns = list(patterns)
    except TypeError:
        patterns = [layers]
    if not patterns:
        raise SelectionError(
            "`layers` is empty. Expected `None` for all noise sites, or at "
            f"least one name, pattern or predicate. Received: {layers!r}"
        )
    for pattern in patterns:
        if not (isinstance(pattern, (str, re.Pattern)) or callable(pattern)):
            raise SelectionError(
                "An entry of `layers` cannot choose a layer. Expected a "
                "string, a compiled regular expression, or a predicate of "
                f"the layer. Received: {pattern!r}"
            )
    return patterns


def _matches(pattern: LayerPattern, site: Site) -> bool:
    if isinstance(pattern, re.Pattern):
        return pattern.search(site.path) is not None
    if callable(pattern):
        return bool(pattern(site.layer))
    if pattern in (site.name, site.path):
        return True
    try:
        return any(
            re.fullmatch(pattern, text) for text in (site.name, site.path)
        )
    except re.error:
        return False
