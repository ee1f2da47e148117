# SPDX-License-Identifier: Apache-2.0
"""What of a model is stochastic, and what could not be reached."""

import dataclasses
import sys

import keras

from keras_bayesdrop import _keras
from keras_bayesdrop._table import format_table
from keras_bayesdrop._validate import check_model
from keras_bayesdrop.plan import find_sites
from keras_bayesdrop.sites import hidden_noise
from keras_bayesdrop.views import source_of


@dataclasses.dataclass(frozen=True)
class SiteReport:
    """A noise site, for people to read.

    Attributes:
        path: Names from the model down to the layer.
        layer: Class name of the layer.
        noise: The noise in words.
        active: Whether it can change anything (its rate is above 0).
    """

    path: str
    layer: str
    noise: str
    active: bool


@dataclasses.dataclass(frozen=True, repr=False)
class Inspection:
    """What `inspect` found.

    Attributes:
        model: Name of the model.
        stochastic: The noise sites that prediction turns on.
        unreachable: Path and reason of noise that it cannot turn on.
        batch_norms: Number of BatchNormalization layers, which stay in
            inference mode.
    """

    model: str
    stochastic: tuple[SiteReport, ...]
    unreachable: tuple[tuple[str, str], ...]
    batch_norms: int

    def __str__(self) -> str:
        """Returns the report as text."""
        lines = [f"Model `{self.model}`"]
        if self.stochastic:
            rows = [
                (s.path, s.layer, s.noise, "yes" if s.active else "no")
                for s in self.stochastic
            ]
            header = ("noise site", "layer", "noise", "active")
            lines += ["", format_table(header, rows)]
        else:
            lines += ["", "No noise site: nothing to sample."]
        if self.unreachable:
            lines += [
                "",
                format_table(("out of reach", "why"), self.unreachable),
            ]
        if self.batch_norms:
            lines += [
                "",
                f"{self.batch_norms} BatchNormalization layer(s): in "
                "inference mode, statistics untouched.",
            ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Returns the counts."""
        return (
            f"Inspection(model={self.model!r}, "
            f"stochastic={len(self.stochastic)}, "
            f"unreachable={len(self.unreachable)})"
        )


def inspect(model: keras.Model, verbose: bool = True) -> Inspection:
    """Reports what of a model is stochastic, and what could not be reached.

    Args:
        model: A built Keras model.
        verbose: Whether to print the report as well.

    Returns:
        The report; `str` of it is the text.

    Example:
    ```python
    report = keras_bayesdrop.inspect(model)
    assert not report.unreachable
    ```
    """
    _keras.require_tensorflow()
    check_model(model)
    model, _ = source_of(model, None)
    sites = find_sites(model)
    report = Inspection(
        model.name,
        tuple(
            SiteReport(
                site.path,
                type(site.layer).__name__,
                site.noise.describe(),
                site.noise.active,
            )
            for site in sites
        ),
        tuple(hidden_noise(model, "")),
        sum(
            isinstance(layer, keras.layers.BatchNormalization)
            for layer in _keras.all_layers(model)
        ),
    )
    if verbose:
        sys.stdout.write(f"{report}\n")
    return report
