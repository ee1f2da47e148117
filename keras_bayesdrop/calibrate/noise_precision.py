# SPDX-License-Identifier: Apache-2.0
"""The observation noise, from validation data."""

import math

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.calibrate._checks import check_predictive
from keras_bayesdrop.calibrate._fit_precision import fit_noise_precision
from keras_bayesdrop.calibrate._maximise import maximise
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import MissingSamplesError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import regression_targets

# The noise of a prediction by moments is sought down to this fraction of the
# mean squared residual: below, it would not be seen in any interval.
_LEAST_NOISE = 1e-6


def noise_precision(prediction: Predictive, y: npt.ArrayLike) -> float:
    """Precision of the observation noise that makes `y` most likely.

        tau = argmax{ sum{ log(sum{ N(y[i]; y[i, t], 1 / tau) : t } / T) : i } }

    over the samples `t` and rows `i`, which is the log-likelihood that
    `Predictive.log_likelihood` reports. Gal's experiments choose `tau` from a
    grid; this is the maximum itself, sought in `log(tau)` by a grid over all
    values that can be best, and golden sections. A prediction by moments,
    which has no samples: the same for normals of its mean and of the variance
    `variance + 1 / tau`.

    Use rows that the model was not trained on: on training data residuals are
    too small, and the precision too large.

    Args:
        prediction: `Predictive` of a regression, with samples or by moments.
            Its own `noise_precision` is not used.
        y: Targets `[rows, outputs]`.

    Returns:
        Positive float `tau`. The noise has the variance `1 / tau`, in the
        squared unit of the targets.

    Example:
    ```python
    tau = keras_bayesdrop.calibrate.noise_precision(p_val, y_val)
    head = keras_bayesdrop.Regression(noise_precision=tau)
    p_new = dataclasses.replace(p_new, head=head)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """
    p = check_predictive(prediction, ("regression",))
    target = regression_targets(p.mean, y)
    if p.samples is not None:
        closest = np.min(np.abs(p.samples - target), axis=0)
        if not np.any(closest > 0):
            raise _no_noise("a sample is equal to every target")
        return fit_noise_precision(p.samples, target)
    if p.stats.sampled:
        raise MissingSamplesError(
            "Cannot find the noise precision. Expected the single samples. "
            "Received: samples=None. Use predict_with_uncertainty(..., "
            "return_samples=True)."
        )
    return _of_normals(p.variance.astype(np.float64), target - p.mean)


def _of_normals(variance: Float64Array, residual: Float64Array) -> float:
    """Most likely precision if residuals are `N(0, variance + 1 / tau)`."""
    squared = residual**2
    largest = float(squared.max())
    if largest == 0:
        raise _no_noise("the mean is equal to every target")

    def log_likelihood(log_noise: float) -> float:
        total = variance + math.exp(log_noise)
        return -float(np.mean(np.log(total) + squared / total))

    # No more noise than the largest residual asks for alone.
    low = math.log(_LEAST_NOISE * float(squared.mean()))
    best = maximise(log_likelihood, low, math.log(largest))
    if best < low + 1e-6:
        raise _no_noise("the variance is larger than the residuals ask for")
    return math.exp(-best)


def _no_noise(received: str) -> BayesdropError:
    return BayesdropError(
        "There is no best noise precision: the likelihood grows as the noise "
        "goes to zero. Expected residuals larger than the prediction itself "
        f"explains. Received: {received}"
    )
