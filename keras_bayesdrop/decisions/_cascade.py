# SPDX-License-Identifier: Apache-2.0
"""Predicts with a fast model, and with a slow one for unsure rows."""

import os
import time
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop._core.validate import check_return_samples
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.decisions._cascade_outputs import check_output
from keras_bayesdrop.decisions._cascade_outputs import merge
from keras_bayesdrop.decisions._deferral import Budget
from keras_bayesdrop.decisions._deferral import Deferral
from keras_bayesdrop.decisions._deferral import check_limits
from keras_bayesdrop.decisions._deferral import decide
from keras_bayesdrop.decisions._uncertainty import QUANTITIES
from keras_bayesdrop.decisions._uncertainty import check_row_values
from keras_bayesdrop.decisions._uncertainty import row_uncertainty
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from keras_bayesdrop.prediction import methods
from keras_bayesdrop.prediction.detection import check_heads
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.prediction.model_checks import check_num_samples
from keras_bayesdrop.prediction.predictor import Predictor
from keras_bayesdrop.prediction.reading import readings_of
from keras_bayesdrop.prediction.request import OLD_KEYWORDS
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.sample_noise import learns_noise
from keras_bayesdrop.predictive.select import quantities_of

# Options of `predict_with_uncertainty`, which callables do not take.
_DEFAULTS: dict[str, Any] = {
    "num_samples": 50,
    "batch_size": None,
    "seed": None,
    "method": Sampling(),
    "head": "auto",
    "layers": None,
    "return_samples": False,
    "allow_hidden_noise": False,
    "verbose": 0,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CascadeResult:
    """Merged predictions of two models; the result of `Cascade.predict`.

    Attributes:
        mean: Array `[rows, outputs]`, or a structure of arrays: the mean of
            the slow model for the rows `asked`, of the fast model for others.
        std: Standard deviations in the same form, if both models return them;
            else `None`.
        fast: Output of the fast model, for all rows.
        slow: Output of the slow model for the rows `asked`, in that order.
            `None` if there are no such rows.
        deferral: The choice of the rows `asked`.
        fast_seconds: Wall time of the fast model. The first call includes
            compilation.
        slow_seconds: Wall time of the slow model.
    """

    mean: Any
    std: Any
    fast: Any
    slow: Any
    deferral: Deferral
    fast_seconds: float
    slow_seconds: float

    @property
    def asked(self) -> npt.NDArray[np.intp]:
        """Rows that the slow model predicted, the least sure first."""
        return self.deferral.rows

    @property
    def saving(self) -> float:
        """Share of the rows that the slow model did not predict."""
        return self.deferral.coverage

    def __repr__(self) -> str:
        """Short summary."""
        return (
            f"CascadeResult(asked={len(self.asked)} of "
            f"{len(self.deferral.mask)}, saving={self.saving:.1%}, "
            f"fast_seconds={self.fast_seconds:.3g}, "
            f"slow_seconds={self.slow_seconds:.3g})"
        )


class Cascade:
    """Predicts with a fast model, and with a slow one for unsure rows.

        answer[i] = slow(x[i])    if uncertainty(fast(x[i])) > threshold
                    fast(x[i])    otherwise

    A budget is a share or number of the rows of each call. A service that
    answers row by row needs a threshold instead. Validation data give the
    threshold for a budget: `fast_predictive.defer(budget=0.2).threshold`.

    Args:
        fast: A Keras model with dropout, or a list of models, an ensemble,
            which `predict_with_uncertainty` runs; or a callable that maps
            `x` to a `Predictive`, an array, or a structure of these.
        slow: The same. A Keras model without noise runs by its `predict`. Wrap
            a model in `deterministic` to switch its noise off.
        budget: Largest share (float in `[0, 1]`) or number (int) of the rows
            of a call that the slow model predicts: the rows that the fast
            model is least sure of.
        threshold: The slow model predicts the rows whose uncertainty is above
            it. Pass this or `budget`.
        by: The uncertainty: `"auto"` or another name, as in
            `Predictive.defer`; or a callable that maps the output of the fast
            model to numbers `[rows]`. A callable is needed if that output is
            not a single `Predictive`.
        num_samples: As in `predict_with_uncertainty`, which gets this and all
            that follow, for Keras models.
        batch_size: As in `predict_with_uncertainty`.
        seed: As in `predict_with_uncertainty`.
        method: As in `predict_with_uncertainty`.
        head: As in `predict_with_uncertainty`.
        layers: As in `predict_with_uncertainty`.
        return_samples: Bool. Whether the predictions keep their samples.
        allow_hidden_noise: As in `predict_with_uncertainty`.
        verbose: As in `predict_with_uncertainty`. Defaults to `0`.

    Example:
    ```python
    cascade = Cascade(small, large, budget=0.2, num_samples=30, seed=0)
    result = cascade.predict(x)
    result.mean, result.asked, result.saving
    ```
    """

    @refuse_old_keywords(OLD_KEYWORDS)
    def __init__(
        self,
        fast: Any,
        slow: Any,
        *,
        budget: Budget | None = None,
        threshold: float | None = None,
        by: str | Callable[[Any], Any] = "auto",
        num_samples: int = 50,
        batch_size: int | None = None,
        seed: int | None = None,
        method: str | Method = "sampling",
        head: Any = "auto",
        layers: LayerSelection = None,
        return_samples: bool = False,
        allow_hidden_noise: bool = False,
        verbose: str | int = 0,
    ) -> None:
        for name, model in (("fast", fast), ("slow", slow)):
            if _is_keras(model):
                for member in _members(model):
                    check_model(member)
            elif not callable(model):
                raise invalid(
                    name, model, "a Keras model, a list of them, or a callable"
                )
        check_limits(budget, threshold)
        if not callable(by):
            check_choice(by, "by", ("auto", *QUANTITIES))
        if isinstance(check_return_samples(return_samples), os.PathLike):
            raise BayesdropError(
                "Two models cannot write their samples to one file. Expected "
                "`return_samples` to be a bool. Received: "
                f"return_samples={str(return_samples)!r}"
            )
        check_heads(head)
        self.fast = fast
        self.slow = slow
        self.budget = budget
        self.threshold = threshold
        self.by = by
        self.options = {
            "num_samples": check_num_samples(num_samples),
            "batch_size": batch_size,
            "seed": seed,
            "method": methods.get(method),
            "head": head,
            "layers": layers,
            "return_samples": return_samples,
            "allow_hidden_noise": allow_hidden_noise,
            "verbose": verbose,
        }
        self._predictors: dict[str, tuple[Any, dict[str, Any], Predictor]] = {}
        unused = sorted(
            name
            for name, default in _DEFAULTS.items()
            if self.options[name] != default
        )
        if unused and not any(map(_is_keras, (fast, slow))):
            raise BayesdropError(
                "Options are for `predict_with_uncertainty`, which is not "
                f"used for callables. Expected no options. Received: {unused}"
            )

    def predict(self, x: Any) -> CascadeResult:
        """Predicts all rows of `x`.

        Args:
            x: An array `[rows, ...]`, or lists and dicts of such arrays.

        Returns:
            A `CascadeResult`.
        """
        x = _arrays(x)
        rows = len(keras.tree.flatten(x)[0])
        fast, fast_seconds = self._ask(self.fast, x, rows, "fast")
        deferral = decide(
            *self._uncertainty(fast, rows), self.budget, self.threshold
        )
        slow, slow_seconds = None, 0.0
        if len(deferral.rows):
            some = keras.tree.map_structure(lambda a: a[deferral.rows], x)
            learned = any(
                isinstance(leaf, Predictive) and learns_noise(leaf)
                for leaf in keras.tree.flatten(fast)
            )
            slow, slow_seconds = self._ask(
                self.slow, some, len(deferral.rows), "slow", learned
            )
        mean, std = merge(fast, slow, deferral.rows)
        return CascadeResult(
            mean=mean,
            std=std,
            fast=fast,
            slow=slow,
            deferral=deferral,
            fast_seconds=fast_seconds,
            slow_seconds=slow_seconds,
        )

    def _ask(
        self, model: Any, x: Any, rows: int, who: str, learned: bool = False
    ) -> tuple[Any, float]:
        """Returns the checked output of a model, and the seconds it took.

        Args:
            model: The model, or a callable.
            x: Its inputs.
            rows: Number of their rows.
            who: Name of the model, for errors.
            learned: Whether the fast model has learned noise.
        """
        began = time.perf_counter()
        if not _is_keras(model):
            output = model(x)
        else:
            try:
                predictor = self._predictor(model, who)
                output = predictor(x, verbose=self.options["verbose"])
            except NothingToSampleError:
                # Only the fast model needs an uncertainty.
                if who == "fast":
                    raise
                output = model.predict(x, verbose=0)
                if learned:
                    output = self._means(model, x, output)
        seconds = time.perf_counter() - began
        return check_output(output, rows, who), seconds

    def _predictor(self, model: Any, who: str) -> Predictor:
        """Returns the predictor of a model, made when it is first asked."""
        options = {**self.options}
        del options["verbose"]
        known = self._predictors.get(who)
        if known is None or known[0] is not model or known[1] != options:
            known = (model, options, Predictor(model, **options))
            self._predictors[who] = known
        return known[2]

    def _means(self, model: keras.Model, x: Any, outputs: Any) -> Any:
        """Reads the means off outputs that also have log variances."""
        plan = build_plan(model, None, input_data.specs_of(x))
        readings = readings_of(model, plan, self.options["head"])
        flat = keras.tree.flatten(outputs)
        return readings.pack(
            [
                np.asarray(reading.values(flat)[0])
                if quantities_of(reading.head).has_learned_noise
                else flat[reading.sources[0]]
                for reading in readings.each
            ]
        )

    def _uncertainty(self, fast: Any, rows: int) -> tuple[Float64Array, str]:
        if callable(self.by):
            return check_row_values(self.by(fast), "by", rows), "given"
        if not isinstance(fast, Predictive):
            raise BayesdropError(
                "The output of the fast model has no uncertainty. Expected a "
                "single `Predictive`, or a callable `by` that maps the output "
                "to numbers [rows]. Received: "
                f"{type(fast).__name__}, by={self.by!r}"
            )
        return row_uncertainty(fast, self.by)


def _arrays(x: Any) -> Any:
    """Returns `x` as arrays, or raises if it is a stream."""
    if input_data.count_rows(x) is None:
        raise BayesdropError(
            "A cascade reads some rows twice, which a stream does not allow. "
            "Expected an array [rows, ...], or lists and dicts of arrays. "
            f"Received: {type(x).__name__}"
        )
    x = keras.tree.map_structure(np.asarray, x)
    input_data.check_arrays(x)
    return x


def _is_keras(model: Any) -> bool:
    """Returns whether a member of a cascade is a model or an ensemble."""
    return isinstance(model, (keras.Model, list, tuple))


def _members(model: Any) -> Sequence[Any]:
    return model if isinstance(model, (list, tuple)) else [model]
