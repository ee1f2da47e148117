# SPDX-License-Identifier: Apache-2.0
"""Chooses the rows whose labels to ask for next: active learning."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.decisions._information import batchbald
from keras_bayesdrop.decisions._information import batchbald_normal
from keras_bayesdrop.decisions._information import epig_classes
from keras_bayesdrop.decisions._information import epig_normal
from keras_bayesdrop.decisions._joint_samples import check_same_functions
from keras_bayesdrop.decisions._joint_samples import class_samples
from keras_bayesdrop.decisions._joint_samples import measurement_noise
from keras_bayesdrop.decisions._joint_samples import output_samples
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.labels import sum_per_row
from keras_bayesdrop.random.philox import seed_to_key

METHODS = (
    "bald",
    "batchbald",
    "entropy",
    "variation_ratio",
    "epig",
    "random",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Acquisition:
    """Rows chosen from a pool; the result of `acquire`.

    Attributes:
        rows: Int array `[k]`, in the order of choice.
        scores: Array `[k]`. For `"batchbald"` the information in nats that
            each row adds to those before it, with the information of the
            batch as their sum. For other methods the score of the row.
        method: Name of the method.
    """

    rows: npt.NDArray[np.intp]
    scores: Float64Array
    method: str


def acquire(
    predictive: Predictive,
    k: int,
    method: str = "bald",
    *,
    targets: Predictive | None = None,
    seed: int | None = None,
    num_configurations: int = 10_000,
) -> Acquisition:
    """Chooses the rows of a pool whose labels would teach a model most.

    Every method except `"batchbald"` gives each row a score and takes the `k`
    highest. Of rows with equal scores the earlier one comes first.

        bald              mutual_information: information that a label gives
                          about the network
        entropy           predictive_entropy, which includes label noise
        variation_ratio   variation_ratio
        epig              information that a label gives about the labels of
                          `targets`
        random            the same score for all rows

    The highest scores of a pool tend to belong to similar rows, whose labels
    are redundant. `"batchbald"` avoids that. It takes the row that adds most to
    the joint information of the rows taken before,

        I(y[1..n]; network) = H(y[1..n]) - sum{ expected_entropy[i] : i }

    This greedy order reaches at least `1 - 1/e` of the information of the best
    batch. Its first row is that of `"bald"`.

    For numbers, with `tau` the `noise_precision`, and normal distributions
    with the variances and covariances of the samples:

        bald        1/2 * log(1 + tau * variance)
        batchbald   1/2 * log(det(1 + tau * covariance))
        epig        -1/2 * log(1 - correlation**2)

    summed over the outputs; `"entropy"` and `"variation_ratio"` are not
    defined. Scores of rows with several labels are summed over them.

    Learned noise has a `tau` for each output of a row, `1 / aleatoric`, and it
    differs between the samples: a measurement tells something about it, too.
    So `"bald"` and `"batchbald"` add to each measurement

        1/2 * (log(aleatoric) - mean{ log(noise_samples[t]) : t })

    Then `"bald"` is the entropy of a normal of variance `total` minus the mean
    entropy of the samples. No distribution of this variance has more entropy,
    so it is an upper bound of the information of the mixture. It needs
    `return_samples=True`.

    Args:
        predictive: Prediction for the pool. For `"batchbald"` and `"epig"` by
            `predict_with_uncertainty(..., return_samples=True)`, with one
            label per row.
        k: Int, number of rows to choose; at most the number of rows.
        method: One of the names above.
        targets: For `"epig"`: prediction for inputs like those that the model
            will see in use, with the same `seed` and `num_samples` as for the
            pool.
        seed: Any integer, for `"random"` and the configurations of
            `"batchbald"`. By default drawn from Python's generator, which
            `keras.utils.set_random_seed` seeds.
        num_configurations: For `"batchbald"` of classes. The joint entropy is
            exact up to this number of label configurations: 10000 suffice for
            five rows of ten classes. For larger batches about this many are
            drawn.

    Returns:
        An `Acquisition`: `rows` and their `scores`.

    Example:
    ```python
    p = predict_with_uncertainty(model, pool, return_samples=True)
    rows = acquire(p, k=10, method="batchbald").rows
    ```

    References:
        - [Houlsby et al., 2011](https://arxiv.org/abs/1112.5745): BALD.
        - [Gal et al., 2017](https://arxiv.org/abs/1703.02910).
        - [Kirsch et al., 2019](https://arxiv.org/abs/1906.08158): BatchBALD.
        - [Bickford Smith et al., 2023](https://arxiv.org/abs/2304.08151):
          EPIG.
    """
    check_choice(method, "method", METHODS)
    count = check_positive_int(k, "k")
    if count > len(predictive):
        raise invalid("k", k, f"at most {len(predictive)}, the number of rows")
    limit = check_positive_int(num_configurations, "num_configurations")
    key = check_seed(seed)
    generator = np.random.default_rng(seed_to_key(key))
    if (targets is not None) != (method == "epig"):
        raise BayesdropError(
            "`targets` and method='epig' belong together. Expected `targets` "
            "with this method, and with no other. Received: "
            f"method={method!r}, targets={targets}"
        )
    if method == "batchbald":
        rows, scores = _batch(predictive, count, limit, generator)
    elif method == "random":
        rows = generator.permutation(len(predictive))[:count]
        scores = np.zeros(count)
    else:
        rows, scores = _highest(_scores(predictive, method, targets), count)
    return Acquisition(rows=rows, scores=scores, method=method)


def _highest(
    scores: Float64Array, count: int
) -> tuple[npt.NDArray[np.intp], Float64Array]:
    rows = np.argsort(-scores, kind="stable")[:count]
    return rows, scores[rows]


def _scores(
    predictive: Predictive, method: str, targets: Predictive | None
) -> Float64Array:
    """Returns a score for each row."""
    if targets is not None:
        return _epig(predictive, targets)
    if method == "bald" and predictive.head.observation == "number":
        noise = measurement_noise(predictive, method)
        variance = predictive.variance.astype(np.float64)
        gain = 0.5 * np.log1p(noise.precision * variance)
        return sum_per_row(gain + noise.surplus)
    quantity = {
        "bald": "mutual_information",
        "entropy": "predictive_entropy",
        "variation_ratio": "variation_ratio",
    }[method]
    return sum_per_row(getattr(predictive, quantity).astype(np.float64))


def _epig(predictive: Predictive, targets: Predictive) -> Float64Array:
    check_same_functions(predictive, targets)
    if predictive.head.observation == "number":
        # Noise that is not learned is that of the pool.
        like_pool = dataclasses.replace(targets, head=predictive.head)
        return epig_normal(
            output_samples(predictive, "epig"),
            output_samples(targets, "epig"),
            measurement_noise(predictive, "epig").flat(len(predictive)),
            measurement_noise(like_pool, "epig").flat(len(targets)),
        )
    return epig_classes(
        class_samples(predictive, "epig"), class_samples(targets, "epig")
    )


def _batch(
    predictive: Predictive,
    count: int,
    limit: int,
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.intp], Float64Array]:
    if predictive.head.observation == "number":
        return batchbald_normal(
            output_samples(predictive, "batchbald"),
            measurement_noise(predictive, "batchbald").flat(len(predictive)),
            count,
        )
    return batchbald(
        class_samples(predictive, "batchbald"), count, limit, generator
    )
