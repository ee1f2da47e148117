# SPDX-License-Identifier: Apache-2.0
"""What of a model is stochastic, and what could not be reached."""

import dataclasses
import sys
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.table import format_table
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.plan import active_paths
from keras_bayesdrop.prediction import input_data


@dataclasses.dataclass(frozen=True)
class SiteReport:
    """A noise site, for people to read.

    Attributes:
        path: Names from the model down to the layer.
        layer: Class name of the layer.
        noise: The noise in words.
        active: Whether prediction turns it on: its rate is above 0, and it is
            none that has to be asked for (augmentation).
        drawn: Whether it was seen to draw. `None` where that takes an example
            of the inputs, and none was at hand.
    """

    path: str
    layer: str
    noise: str
    active: bool
    drawn: bool | None = None


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
                (s.path, s.layer, s.noise, _word(s.active), _word(s.drawn))
                for s in self.stochastic
            ]
            header = ("noise site", "layer", "noise", "active", "drawn")
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


def _word(answer: bool | None) -> str:
    return {True: "yes", False: "no", None: "unknown"}[answer]


def inspect(
    model: keras.Model, x: Any = None, verbose: bool = True
) -> Inspection:
    """Reports what of a model is stochastic, and what could not be reached.

    Layers are traced to see what they draw; nothing is trained or changed.

    Args:
        model: A built Keras model.
        x: Rows like those to predict, an array or a structure of arrays.
            Needed to see what a model draws whose `call` is its own code;
            without, its sites are reported as `unknown`.
        verbose: Whether to print the report as well.

    Returns:
        The report; `str` of it is the text.

    Example:
    ```python
    report = keras_bayesdrop.inspect(model)
    assert not report.unreachable
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    model, _ = source_of(model, None)
    if isinstance(x, bool):
        raise BayesdropError(
            "Invalid value for argument `x`. Expected rows for the model, or "
            f"None. Received: x={x} (`verbose` is the third argument)"
        )
    example = None
    if x is not None:
        if input_data.count_rows(x) is None:
            raise BayesdropError(
                "Invalid value for argument `x`. Expected an array [rows, "
                f"...] or a structure of arrays. Received: {type(x).__name__}"
            )
        input_data.check_shapes(model, x)
        example = input_data.specs_of(x)
    surveyed = survey(model, example)
    active = active_paths(None, surveyed)
    report = Inspection(
        model.name,
        tuple(
            SiteReport(
                site.path,
                type(site.layer).__name__,
                site.noise.describe(),
                site.noise.active and site.path in active,
                site.path in surveyed.seen if surveyed.is_complete else None,
            )
            for site in surveyed.sites
        ),
        tuple((each.path, each.why) for each in surveyed.hidden),
        sum(
            isinstance(layer, keras.layers.BatchNormalization)
            for layer in private_keras.all_layers(model)
        ),
    )
    if verbose:
        sys.stdout.write(f"{report}\n")
    return report
