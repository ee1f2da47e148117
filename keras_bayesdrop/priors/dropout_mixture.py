# SPDX-License-Identifier: Apache-2.0
"""The KL divergence of weights that dropout keeps or sets to zero."""

import math
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import check_rate
from keras_bayesdrop.priors._numerics import as_float


def mixture_kl(
    mean: Any, std: float, rate: Any, length_scale: float = 1.0
) -> Any:
    """Returns the KL of a two-component Gaussian mixture to a Gaussian prior.

    The posterior of dropout draws the `K` weights of a unit around their mean,
    or around zero if the unit is dropped:

        q(w) = (1 - rate) * N(w; m, s^2 I) + rate * N(w; 0, s^2 I)
        p(w) = N(w; 0, I / l^2)

    The function returns

        KL = (1 - rate) * l^2 / 2 * sum(m^2)
             + K / 2 * (l^2 s^2 - log(l^2 s^2) - 1) - H(rate)

    with `H(rate) = -rate * log(rate) - (1 - rate) * log(1 - rate)`, which
    neglects the overlap of the components. It is a lower bound of the exact
    divergence. The missing term is the conditional entropy of the mask,

        0 <= exact - KL <= min(H(rate), 1.3863 * c * exp(-|m|^2 / (8 s^2)))
        c = sqrt(rate * (1 - rate))

    The missing term depends on `|m| / s` and `rate` alone; `K` matters only
    because a longer vector has a larger norm. The term is below 3e-6 at
    `|m| = 10 * s`. At `m = 0`, where the components coincide, it is `H(rate)`.

    The paper omits `H`, which is constant unless the rate is learned. Its
    formula for one layer also omits the factor 1/2 of the second term.

    Args:
        mean: Tensor of shape `[..., K]`, the means `m`. With Keras' scaling
            of dropout, `m` is the kernel divided by `1 - rate`.
        std: Positive float. Width `s` of both components.
        rate: Float in `[0, 1]`, or a tensor of such that broadcasts with
            `[...]`. Probability of dropping.
        length_scale: Positive float. Prior length scale `l`. Defaults to
            `1.0`.

    Returns:
        Tensor of shape `[...]`, in nats, in float32 or better.

    Example:
    ```python
    keras_bayesdrop.priors.mixture_kl([[1.0, 2.0]], std=0.1, rate=0.5)
    # [4.1720]
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02157),
          proposition 1.
    """
    mean = as_float(mean)
    length_scale = check_positive(length_scale, "length_scale")
    # In logs, because the product of the factors may be 0 in float64.
    log_ratio = 2.0 * math.log(length_scale)
    log_ratio += 2.0 * math.log(check_positive(std, "std"))
    width = 0.5 * mean.shape[-1] * (math.exp(log_ratio) - log_ratio - 1.0)
    if isinstance(rate, (bool, int, float, str)) or rate is None:
        rate = check_rate(rate)
        drop = keras.ops.convert_to_tensor(rate, mean.dtype)
    else:
        drop = keras.ops.cast(rate, mean.dtype)
    keep = 1.0 - drop
    squares = keras.ops.sum(keras.ops.square(length_scale * mean), axis=-1)
    return 0.5 * keep * squares + width + _x_log_x(drop) + _x_log_x(keep)


def _x_log_x(x: Any) -> Any:
    """Returns x * log(x), and 0 for 0."""
    some = x > 0.0
    return x * keras.ops.log(keras.ops.where(some, x, 1.0))
