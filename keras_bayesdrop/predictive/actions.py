# SPDX-License-Identifier: Apache-2.0
"""Methods of a `Predictive` that hand it on: decisions, pictures, tables.

Those of other rooms are imported when they are called.
"""

from typing import TYPE_CHECKING
from typing import Any

import numpy.typing as npt

from keras_bayesdrop.predictive import table
from keras_bayesdrop.predictive.derived import Derived
from keras_bayesdrop.predictive.notebook import page_of

if TYPE_CHECKING:
    from keras_bayesdrop.decisions._deferral import Deferral
    from keras_bayesdrop.predictive.result import Predictive


class Actions(Derived):
    """The methods of a `Predictive` that hand it to other parts."""

    def defer(
        self,
        *,
        budget: float | int | None = None,
        threshold: float | None = None,
        by: str | npt.ArrayLike = "auto",
        y: npt.ArrayLike | None = None,
        loss: npt.ArrayLike | None = None,
    ) -> "Deferral":
        """Chooses the rows that are too unsure to be left to the model.

            deferred = { i : uncertainty[i] > threshold }

        By default the uncertainty is the expected loss under the prediction
        itself, averaged over the labels or outputs of a row:

            classification, binary   1 - max{ mean[c] : c }
            numbers                  total

        That is the probability of an error, or the expected squared error. If
        asking an expert costs as much as `threshold` errors, asking pays for
        exactly these rows (Chow's rule).

        Args:
            budget: Defers at most this share (float in `[0, 1]`) or number
                (int) of the rows, the most uncertain first; of equally
                uncertain ones the earlier.
            threshold: Defers the rows whose uncertainty is above it. Pass
                this or `budget`.
            by: `"auto"`, or the name of a quantity: `"predictive_entropy"`,
                `"expected_entropy"`, `"mutual_information"`,
                `"variation_ratio"`, `"std"`, `"epistemic"`, `"aleatoric"`,
                `"total"`, `"mc_error"`, `"expected_loss"` (the default),
                averaged over its values in a row; or an array `[rows]` of
                your own.
            y: Labels or targets, as in `log_likelihood`. With them the result
                has the share of errors, or the mean squared error, of the
                rows that are kept, at this and every other threshold.
            loss: Array `[rows]` in place of `y`: the cost of each row if it
                is kept.

        Returns:
            A `keras_bayesdrop.decisions.Deferral`.

        Example:
        ```python
        d = p.defer(budget=0.1, y=y)
        x[d.rows], d.threshold, d.risk, d.full_risk
        ```

        References:
            - Chow, 1970: On optimum recognition error and reject tradeoff.
              IEEE Transactions on Information Theory 16.
        """
        from keras_bayesdrop.decisions._deferral import defer

        return defer(self._result, budget, threshold, by, y, loss)

    def plot(
        self,
        x: npt.ArrayLike | None = None,
        y: npt.ArrayLike | None = None,
        out: "Predictive | None" = None,
        ax: Any = None,
        output: int | tuple[int, ...] | None = None,
    ) -> Any:
        """Draws the picture that fits the task and the arguments.

        | arguments | numbers | classification | binary |
        |---|---|---|---|
        | `x`, or `x` and `y` | `predictive_band` | | `predictive_band` |
        | `y` | `parity` | `reliability_diagram` | `reliability_diagram` |
        | `out` | `entropy_histogram` of `std` | `entropy_histogram` | same |
        | none | the same, of these rows alone | same | same |

        For a classification `x` labels the rows of a `class_scatter`. That
        picture is also drawn without arguments if there are samples of at
        most 24 rows.

        Images get an `uncertainty_map` of their first row, without arguments
        or with `x` alone: outputs `[rows, height, width, classes]` or
        `[rows, height, width, channels]`. Then `x` are the images that the
        model saw, and `output` is a channel.

        The functions of `keras_bayesdrop.plots` have more options. They need
        matplotlib.

        Args:
            x: Numbers `[rows]` or `[rows, 1]`: the input, if there is one.
                Images for a map.
            y: Labels or targets, as in `log_likelihood`.
            out: Prediction of inputs from outside the distribution, to
                compare with these.
            ax: Matplotlib axes; `None` for those of a new figure.
            output: The output to draw, if there are several: its number along
                the flattened axes, or a tuple with an int for each axis.

        Returns:
            The axes.

        Example:
        ```python
        p.plot(y=y_test).figure.savefig("reliability.png")
        ```
        """
        from keras_bayesdrop.plots._choice import fitting_picture

        return fitting_picture(self._result, x, y, out, ax, output)

    def to_frame(self, level: float = 0.9) -> Any:
        """Returns a pandas data frame with a line per row.

        Its columns are those of the table of `keras-bayesdrop predict`:

            class                        classification: the likeliest class
            mean, std                    of the samples
            aleatoric_std, total_std     sqrt(aleatoric), where the noise is
                                         learned, and sqrt(total), where it is
                                         learned or known
            lower, upper                 ends of `interval(level)`
            q0.1, ...                    stored quantiles
            entropy, mutual_information  of labels; the second needs samples
                                         or their mean entropy

        Outputs are numbered: `mean_0`, `mean_1`, and `mean_2_3` for an index
        of two axes. `p[:, 0].to_frame()` has one output alone.

        Args:
            level: Float in `(0, 1)`. Probability of the interval.

        Returns:
            A `pandas.DataFrame`. Its index is named `row`.

        Example:
        ```python
        p.to_frame().sort_values("std_0").to_csv("prediction.csv")
        ```
        """
        return table.to_frame(self._result, level)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return page_of(self._result)
