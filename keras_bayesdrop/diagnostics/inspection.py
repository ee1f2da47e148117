# SPDX-License-Identifier: Apache-2.0
"""The report of `inspect`: the noise sites of a model."""

import dataclasses
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.plan import active_paths
from keras_bayesdrop.prediction import input_data


@dataclasses.dataclass(frozen=True)
class SiteReport:
    """A noise site in the report.

    Attributes:
        path: Names from the model down to the layer.
        layer: Class name of the layer.
        noise: The noise in words.
        active: Whether prediction turns it on: its rate is above 0, and it is
            not augmentation, which has to be selected.
        drawn: Whether it was seen to draw when the model was traced. `None`
            where tracing needs an example of the inputs and got none.
    """

    path: str
    layer: str
    noise: str
    active: bool
    drawn: bool | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Inspection(Report):
    """The noise of a model. Prints itself.

    Attributes:
        model: Name of the model.
        stochastic: The noise sites that prediction can turn on.
        unreachable: Path and reason of each noise that prediction cannot
            turn on.
        batch_norms: Number of BatchNormalization layers, which stay in
            inference mode.
    """

    model: str
    stochastic: tuple[SiteReport, ...]
    unreachable: tuple[tuple[str, str], ...]
    batch_norms: int

    def _blocks(self) -> list[str | Table]:
        blocks: list[str | Table] = [f"Model `{self.model}`"]
        if self.stochastic:
            header = ("noise site", "layer", "noise", "active", "drawn")
            rows = [
                (s.path, s.layer, s.noise, _word(s.active), _word(s.drawn))
                for s in self.stochastic
            ]
            blocks.append(Table(header, rows))
        else:
            blocks.append("No noise site: nothing to sample.")
        if self.unreachable:
            blocks.append(Table(("out of reach", "why"), self.unreachable))
        if self.batch_norms:
            blocks.append(
                f"{self.batch_norms} BatchNormalization layer(s): in "
                "inference mode, statistics untouched."
            )
        return blocks


def _word(answer: bool | None) -> str:
    return {True: "yes", False: "no", None: "unknown"}[answer]


@refuse_old_keywords({"verbose": "`print(inspect(model))` to print the report"})
def inspect(model: keras.Model, x: Any = None) -> Inspection:
    """Reports the noise of a model, and noise that could not be reached.

    Layers are traced to see what they draw. The model is not changed.

    Args:
        model: A built Keras model.
        x: Rows like those to predict, an array or a structure of arrays. A
            model whose `call` is its own code needs them to be traced;
            without them its sites are reported as `unknown`.

    Returns:
        The report, which prints itself.

    Example:
    ```python
    report = keras_bayesdrop.inspect(model)
    print(report)
    assert not report.unreachable
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    model, _ = source_of(model, None)
    if isinstance(x, bool):
        raise BayesdropError(
            "Invalid value for argument `x`. Expected rows for the model, or "
            f"None. Received: x={x}"
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
    return Inspection(
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
