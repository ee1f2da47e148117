# SPDX-License-Identifier: Apache-2.0
"""The report of `relevance`: the learned scales of a model's priors."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery import layers_by_path
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.regularizers._structured import StructuredPenalty

_ABSENT = "-"


@dataclasses.dataclass(frozen=True, eq=False)
class LayerRelevance:
    """The learned scales of the weights of one layer.

    Attributes:
        path: Names from the model down to the layer, and down to the weights
            if they are not a kernel, such as the embeddings of `Embedding`.
        layer: Class name of the layer.
        rows: Array `[rows]`, a scale for each input unit or channel; `None`
            if the prior has no such scales.
        matrix: Scale of all weights together; `None` if the prior has none.
    """

    path: str
    layer: str
    rows: npt.NDArray[Any] | None
    matrix: float | None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Relevance(Report):
    """The learned scales of a model's priors. Prints itself.

    Attributes:
        model: Name of the model.
        layers: The layers that have scales, in their order in the model.
    """

    model: str
    layers: tuple[LayerRelevance, ...]

    def __getitem__(self, path: str) -> LayerRelevance:
        """Returns the layer of a path."""
        for layer in self.layers:
            if layer.path == path:
                return layer
        raise BayesdropError(
            f"Model `{self.model}` has no learned scales under this path. "
            f"Expected one of {[each.path for each in self.layers]}. "
            f"Received: {path!r}"
        )

    def _blocks(self) -> list[str | Table]:
        """Returns the title and a table; the scales of rows by quantiles."""
        title = f"Model `{self.model}`, prior scales of weights"
        if not self.layers:
            return [title, "No layer with learned scales."]
        header = ("layer", "class", "rows", "least", "median", "most", "matrix")
        rows = [(each.path, each.layer, *_cells(each)) for each in self.layers]
        return [title, Table(header, rows)]


def relevance(model: keras.Model) -> Relevance:
    """Returns the learned scales of the priors of a model's weights.

    They are those of layers with a structured prior, such as `BayesianDense`,
    and of weights with a regularizer `ARD`, `ADD` or `ARDADD`:

        w[r, j] ~ N(0, sigma0^2 * rows[r]^2 * matrix^2)

    A scale that is much smaller than the others marks an input unit, or a
    layer, that the model does not use.

    Args:
        model: A built Keras model of any kind.

    Returns:
        The scales, which print themselves as a table. A layer that several
        others own is listed under the first of its paths.

    Example:
    ```python
    report = keras_bayesdrop.relevance(model)
    print(report)
    report["dense"].rows.argsort()[::-1]  # inputs, the most relevant first
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045).
    """
    model = check_source(model)
    return Relevance(model.name, tuple(_find(model)))


def _find(model: Any) -> Iterator[LayerRelevance]:
    seen = set()
    for path, layer in layers_by_path(model):
        if id(layer) in seen or not getattr(layer, "built", False):
            continue
        seen.add(id(layer))
        name = type(layer).__name__
        for place, scales in _scales_of(path, layer):
            if scales.rows is not None or scales.matrix is not None:
                yield LayerRelevance(
                    place,
                    name,
                    None if scales.rows is None else np.asarray(scales.rows),
                    None if scales.matrix is None else float(scales.matrix),
                )


def _scales_of(path: str, layer: Any) -> Iterator[tuple[str, GroupScales]]:
    """Yields the scales of a layer's own weights, with the path of each."""
    if isinstance(layer, ScaleSource):
        yield path, layer.learned_scales()
    for variable in private_keras.own_variables(layer):
        penalty = variable.regularizer
        if isinstance(penalty, StructuredPenalty):
            kernel = variable.name == "kernel"
            place = path if kernel else f"{path}/{variable.name}"
            yield place, penalty.scales(variable)


def _cells(layer: LayerRelevance) -> tuple[str, ...]:
    matrix = _ABSENT if layer.matrix is None else f"{layer.matrix:.3g}"
    if layer.rows is None:
        return (_ABSENT,) * 4 + (matrix,)
    spread = (layer.rows.min(), np.median(layer.rows), layer.rows.max())
    return (
        str(layer.rows.size),
        *(f"{value:.3g}" for value in spread),
        matrix,
    )
