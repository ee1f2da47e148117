# SPDX-License-Identifier: Apache-2.0
"""The report of `consistency`: a dropout ensemble beside its network."""

from typing import Any

import keras

from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop.diagnostics.measured_units import find_units
from keras_bayesdrop.diagnostics.measured_units import measure_units
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction.request import Request
from keras_bayesdrop.theory.consistency import Consistency as Consistency
from keras_bayesdrop.theory.consistency import (
    LayerConsistency as LayerConsistency,
)


def consistency(
    model: keras.Model,
    x: Any,
    num_samples: int = 100,
    *,
    layers: Any = None,
    threshold: float = 0.1,
    seed: int | None = None,
    batch_size: int | None = None,
) -> Consistency:
    """Measures how much units differ between masks, layer by layer.

    For each unit `O` and each row of `x`, over masks `t`:

        E = mean(O[t]),    V = var(O[t]),    W = O without noise
        NWGM = sigmoid(mean(logit(O[t])))    for logistic units

    Where `E - W` is small, the usual prediction with noise off is as good as
    the mean over the ensemble. A small `V` means that a unit is consistent: its
    value hardly depends on which other units are dropped.

    The outputs of dense, convolutional and activation layers are measured, in
    nested models too. A layer that no noise reaches has `V = 0`.

    Args:
        model: A built Functional or Sequential model with dropout, or a view
            of one by `stochastic`. It is not changed.
        x: Anything that `model.predict` takes.
        num_samples: Number `T` of masks, at least 2. `E` has the standard
            error `sqrt(V / T)`, or less: the `mc_error` of the result.
        layers: Names or paths of the layers to measure. All by default.
        threshold: Positive float. A unit is silent for an input if `|E|` is
            not above it. Defaults to `0.1`, as in the reference.
        seed: Any integer. The masks are the same as with this seed in
            `predict_with_uncertainty`. Random by default.
        batch_size: Bounds the memory, as in `predict_with_uncertainty`. The
            arrays of the result have all rows.

    Returns:
        The measures, which print themselves as a table.

    Example:
    ```python
    report = keras_bayesdrop.consistency(model, x_val[:10], num_samples=1000)
    print(report)
    report["dense_1"].deterministic_error  # E - W, [rows, units]
    ```

    References:
        - [Baldi and Sadowski, 2014](
          https://doi.org/10.1016/j.artint.2014.02.004), sections 9 and 11.
    """
    request = Request(
        num_samples=check_int(num_samples, "num_samples", at_least=2),
        batch_size=None
        if batch_size is None
        else check_positive_int(batch_size, "batch_size"),
        seed=check_seed(seed),
    )
    threshold = check_positive(threshold, "threshold")
    check_source(model)
    model, noisy = source_of(model, None)
    graph = check_graph(model)
    plan = build_plan(model, noisy)
    if not plan.chosen:
        raise NothingToSampleError(
            f"Model `{model.name}` has no active noise: all masks are equal. "
            "Expected at least one dropout layer with a rate above 0. "
            f"Received: {[layer.name for layer in model.layers]}"
        )
    units = find_units(model, graph, plan, layers)
    measured = measure_units(model, plan, units, x, request)
    return Consistency(
        model.name,
        request.num_samples,
        len(measured[0].mean),
        request.seed,
        tuple(
            LayerConsistency(
                unit.path,
                type(unit.layer).__name__,
                threshold,
                request.num_samples,
                moments.mean,
                moments.variance,
                moments.deterministic,
                moments.nwgm,
                moments.mean_variance,
            )
            for unit, moments in zip(units, measured, strict=True)
        ),
    )
