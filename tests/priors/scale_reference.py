# SPDX-License-Identifier: Apache-2.0
"""Scale priors worked out a second time, for the tests.

Densities are those of SciPy with the change of variables written out, and
optima are computed numerically: by a search in float64, and by bisection of the
derivative in decimal arithmetic of 50 digits.
"""

import decimal
from decimal import Decimal

import numpy as np
from scipy import optimize
from scipy import stats

from keras_bayesdrop.priors import HalfCauchyScale
from keras_bayesdrop.priors import InverseGammaScale
from keras_bayesdrop.priors import LogUniformScale

VARIABLES = ("variance", "scale", "log_scale")
# Every kind of prior with every variable of the density.
PRIORS = tuple(
    prior
    for variable in VARIABLES
    for prior in (
        InverseGammaScale(3.0, 3.0, variable=variable),
        InverseGammaScale(0.7, 0.2, on="scale", variable=variable),
        HalfCauchyScale(0.6, variable=variable),
        LogUniformScale(variable=variable),
    )
)
# Pairs of row and matrix priors with a joint optimum for four rows.
PAIRS = (
    (InverseGammaScale(3.0, 3.0), InverseGammaScale(3.0, 3.0)),
    (
        InverseGammaScale(0.5, 0.1, variable="scale"),
        InverseGammaScale(2.0, 5.0),
    ),
    (InverseGammaScale(0.7, 0.2, on="scale"), HalfCauchyScale(2.0)),
    (InverseGammaScale(3.0, 3.0), LogUniformScale()),
    (HalfCauchyScale(1.0), HalfCauchyScale(1.0)),
    (HalfCauchyScale(0.3, "log_scale"), HalfCauchyScale(4.0, "variance")),
    (HalfCauchyScale(1.0), InverseGammaScale(3.0, 3.0)),
    (HalfCauchyScale(0.5), LogUniformScale()),
    (LogUniformScale("log_scale"), InverseGammaScale(3.0, 3.0)),
    (LogUniformScale("log_scale"), HalfCauchyScale(1.0, "log_scale")),
)


def log_density(prior, tau):
    """The log-density of a prior over its variable, by SciPy."""
    tau = np.asarray(tau, "float64")
    # d(variable) / d(tau)
    slope = {"variance": 2.0 * tau, "scale": 1.0, "log_scale": 1.0 / tau}
    if isinstance(prior, InverseGammaScale) and prior.on == "variance":
        over_tau = stats.invgamma.logpdf(tau**2, prior.a, scale=prior.b)
        over_tau = over_tau + np.log(2.0 * tau)
    elif isinstance(prior, InverseGammaScale):
        over_tau = stats.invgamma.logpdf(tau, prior.a, scale=prior.b)
    elif isinstance(prior, HalfCauchyScale):
        over_tau = stats.halfcauchy.logpdf(tau, scale=prior.eta)
    else:
        over_tau = -np.log(tau)
        if prior.variable == "variance":  # 1 / tau^2, not half of it
            over_tau = over_tau + np.log(2.0)
    return over_tau - np.log(slope[prior.variable])


def objective(prior, tau, moments, count):
    """Returns the objective of the scale of one group."""
    gaussian = -count * np.log(tau) - moments / (2.0 * tau**2)
    return gaussian + log_density(prior, tau)


def best_variance(prior, moments, count):
    """The maximum, by a search in log(tau): good to 1e-7 or so."""
    optimum = optimize.minimize_scalar(
        lambda x: -objective(prior, np.exp(x), moments, count),
        bracket=(-2.0, 2.0),
        tol=1e-10,
    )
    return np.exp(2.0 * optimum.x)


def decimal_score(prior, variance):
    """d log_density / d log(tau), by hand, for the Decimal tau^2."""
    power = {"variance": 2, "scale": 1, "log_scale": 0}[prior.variable]
    if isinstance(prior, InverseGammaScale):
        a, b = Decimal(prior.a), Decimal(prior.b)
        if prior.on == "variance":
            return 2 * b / variance - 2 * a - power
        return b / variance.sqrt() - a - power
    if isinstance(prior, HalfCauchyScale):
        # over tau: -2 tau^2 / (eta^2 + tau^2)
        eta = Decimal(prior.eta)
        return 1 - power - 2 * variance / (eta * eta + variance)
    return Decimal(-power)


def bisect(slope):
    """Where a falling function of a positive Decimal is 0."""
    with decimal.localcontext(decimal.Context(prec=50)):
        low, high = Decimal("1e-60"), Decimal("1e60")
        # 120 decades of the logarithm, halved 120 times: 1e-34.
        for _ in range(120):
            middle = (low * high).sqrt()
            if slope(middle) > 0:
                low = middle
            else:
                high = middle
        return low


def decimal_variance(prior, moments, count):
    """The optimum for a float, to more than 30 digits."""
    moments = Decimal(float(moments))
    return bisect(lambda v: moments / v - count + decimal_score(prior, v))


def relative_error(actual, exact):
    """The largest relative error of floats against Decimals."""
    return max(
        abs(float(Decimal(float(value)) / right - 1))
        for value, right in zip(actual, exact, strict=True)
    )


def log_scales(scales):
    return np.log(np.append(scales.rows, scales.matrix).astype("float64"))
