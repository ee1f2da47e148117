# SPDX-License-Identifier: Apache-2.0
"""The report of `evaluate_with_uncertainty`."""

import math
import os
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.files import replacing_file
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop.diagnostics.verdict import Estimate
from keras_bayesdrop.diagnostics.verdict import verdict_of
from keras_bayesdrop.diagnostics.web_page import page_of
from keras_bayesdrop.metrics._bootstrap import intervals
from keras_bayesdrop.metrics._measures import measures_of
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.table import import_pandas

# What is good, and what the metric says. `{level}` is that of intervals.
_TEXTS = {
    "accuracy": ("more", "share of labels predicted right"),
    "confidence": ("", "mean probability of the likeliest label"),
    "overconfidence": ("0", "confidence minus accuracy"),
    "negative_log_likelihood": ("less", "of the truth, in nats per row"),
    "brier_score": ("less", "squared distance from the one-hot label"),
    "expected_calibration_error": (
        "less",
        "gap of confidence and accuracy, in 15 bins of equal width",
    ),
    "mass_calibration_error": (
        "less",
        "the same, in 15 bins of equally many labels",
    ),
    "uncertainty_auroc": (
        "more",
        "chance that a wrong label is less sure than a right one",
    ),
    "aurc": ("less", "mean loss of the surest rows, over all shares of rows"),
    "excess_aurc": ("less", "the same, above the best order of the rows"),
    "predictive_entropy": ("", "mean, all uncertainty, in nats"),
    "expected_entropy": ("", "mean, uncertainty of the data, in nats"),
    "mutual_information": ("", "mean, uncertainty of the model, in nats"),
    "root_mean_squared_error": ("less", "of the mean prediction"),
    "mean_absolute_error": ("less", "of the mean prediction"),
    "crps": ("less", "distance of the whole prediction from the truth"),
    "interval_coverage": (
        "{level}",
        "share of targets inside their {level} intervals",
    ),
    "interval_width": ("less", "mean width of the {level} intervals"),
    "interval_score": ("less", "width, plus a penalty for targets outside"),
    "miscalibration_area": (
        "less",
        "gap of coverage and level, over all levels",
    ),
    "sharpness": ("less", "root of the mean predicted variance"),
    "error_correlation": (
        "more",
        "rank correlation of uncertainty and absolute error",
    ),
    "epistemic": ("", "mean variance between samples"),
    "aleatoric": ("", "mean variance of the noise of observations"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Report):
    """Metrics of a prediction, each with a bootstrap interval.

    It prints itself as a table, and `evaluation["accuracy"]` is the value of
    one metric.

    Attributes:
        prediction: The `Predictive` of all rows.
        labels: The truth: class numbers `[rows, ...]`, flags or targets.
        estimates: By the name of the metric: `value`, `lower` and `upper`.
        undefined: By the name of a metric that is not defined: the reason.
        level: Probability of the intervals of a regression.
        confidence: Probability of the bootstrap intervals.
        num_resamples: Number of resamples.
    """

    prediction: Predictive
    labels: npt.NDArray[Any]
    estimates: Mapping[str, Estimate]
    undefined: Mapping[str, str]
    level: float
    confidence: float
    num_resamples: int

    def __getitem__(self, name: str) -> float:
        """Returns the value of a metric."""
        return self.estimates[name].value

    @property
    def verdict(self) -> tuple[str, ...]:
        """Sentences that the numbers support, first on the calibration."""
        return verdict_of(
            self.prediction,
            self.labels,
            self.estimates,
            self.level,
            self.confidence,
        )

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Returns `value`, `lower` and `upper` by the name of the metric.

        Example:
        ```python
        evaluation.to_dict()["accuracy"]["value"]
        ```
        """
        return {
            name: {"value": e.value, "lower": e.lower, "upper": e.upper}
            for name, e in self.estimates.items()
        }

    def to_frame(self) -> Any:
        """Returns a pandas data frame with a line per metric.

        Its columns are `value`, `lower` and `upper`.

        Example:
        ```python
        evaluation.to_frame().to_csv("evaluation.csv")
        ```
        """
        frame = import_pandas().DataFrame(self.to_dict()).T
        frame.index.name = "metric"
        return frame

    def plot(self) -> Any:
        """Draws one page that answers whether the model can be trusted.

        For numbers: calibration of intervals, risk and coverage, errors
        against uncertainty, widths of intervals. For classes: reliability,
        risk and coverage, uncertainty of right and wrong labels. It needs
        matplotlib.

        Returns:
            The matplotlib figure.

        Example:
        ```python
        evaluation.plot().savefig("evaluation.png")
        ```
        """
        from keras_bayesdrop.plots._evaluation_page import evaluation_page

        return evaluation_page(self.labels, self.prediction, self.level)

    def to_html(
        self,
        path: str | os.PathLike[str],
        title: str = "Can this model be trusted?",
    ) -> None:
        """Writes verdict, table and pictures to one self-contained file.

        The file loads nothing and runs no script. An existing file is
        replaced when the new one is complete.

        Args:
            path: The file.
            title: Heading of the page.

        Example:
        ```python
        evaluation.to_html("report.html")
        ```
        """
        page = page_of(
            title,
            self._heading,
            self.verdict,
            self._table(),
            self._notes(),
            self.plot(),
        )
        with replacing_file(pathlib.Path(path)) as part:
            part.write_text(page, "utf-8")

    @property
    def _heading(self) -> str:
        p = self.prediction
        how = f"{p.stats.num_samples} samples per row"
        if not p.stats.num_samples:
            how = f"by {p.stats.method}"
        return f"{p.task}, {len(p)} rows, {how}"

    def _table(self) -> Table:
        said = f"{100 * self.level:.4g} %"
        title = f"{100 * self.confidence:.4g} % interval"
        rows = []
        for name, e in self.estimates.items():
            better, text = (t.format(level=said) for t in _TEXTS[name])
            ends = f"{_short(e.lower)} to {_short(e.upper)}"
            if math.isnan(e.lower):
                ends = "-"
            rows.append((name, _short(e.value), ends, better, text))
        return Table(("metric", "value", title, "better", "meaning"), rows)

    def _notes(self) -> list[str]:
        notes = [
            f"`{name}` is left out: {reason}."
            for name, reason in self.undefined.items()
        ]
        if self.num_resamples:
            notes.append(
                f"Intervals: {self.num_resamples} bootstrap resamples of the "
                "rows. They show the chance of which rows were evaluated, not "
                "that of training or of the samples."
            )
        return notes

    def _blocks(self) -> Iterable[str | Table]:
        return [
            f"Evaluation: {self._heading}",
            " ".join(self.verdict),
            self._table(),
            *self._notes(),
        ]


def evaluation_of(
    p: Predictive,
    labels: npt.NDArray[Any],
    level: float,
    confidence: float,
    num_resamples: int,
) -> Evaluation:
    """Measures a prediction, and resamples its rows.

    Args:
        p: The prediction.
        labels: The truth.
        level: Probability of the intervals of a regression.
        confidence: Probability of the bootstrap intervals.
        num_resamples: Number of resamples; 0 for none.
    """
    measures, undefined = measures_of(labels, p, level)
    ends = {}
    if num_resamples:
        ends = intervals(measures, len(p), num_resamples, confidence)
    none = (np.nan, np.nan)
    estimates = {
        name: Estimate(measure.value, *ends.get(name, none))
        for name, measure in measures.items()
    }
    return Evaluation(
        p, labels, estimates, undefined, level, confidence, num_resamples
    )


def _short(value: float) -> str:
    return f"{value:.4g}"
