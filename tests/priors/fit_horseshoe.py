# SPDX-License-Identifier: Apache-2.0
"""Makes the table of the horseshoe's KL anew, from quadrature.

python -m tests.priors.fit_horseshoe

It prints what belongs in `keras_bayesdrop/priors/_horseshoe_table.py`.
"""

import sys

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from keras_bayesdrop.priors import _horseshoe_table as table
from tests.priors.weight_reference import half_line


def minus_log(log_z):
    """f(z) = -log(e^z E1(z)) from log z, in double precision."""
    log_z = np.asarray(log_z, dtype=np.float64)
    z = np.exp(np.clip(log_z, -40.0, 600.0))
    # For tiny z, E1(z) is -log z - gamma; for large z, use the continued
    # fraction e^z E1(z) = 1 / (z + 1 / (1 + 1 / (z + 2 / (1 + 2 / (z + ...
    tiny = -np.log(np.maximum(-log_z - np.euler_gamma, 1.0))
    middle = np.clip(z, 1e-17, 50.0)
    large, fraction = np.maximum(z, 50.0), 0.0
    for k in range(60, 0, -1):
        fraction = k / (1.0 + k / (large + fraction))
    value = np.where(
        z > 50.0,
        np.log(large + fraction),
        -np.log(special.exp1(middle)) - middle,
    )
    return np.where(log_z < -35.0, tiny, value)


def remainder(u, log_z):
    """E f(z) - f(exp E log z) for E log z = log_z, an array."""
    nodes, weights = half_line(np.sqrt(2.0 * u))
    spread = np.log(nodes**2 / 2.0)
    spread -= weights @ spread
    expected = minus_log(log_z[:, None] + spread) @ weights
    return expected - minus_log(log_z)


def interpolant(by_u=36, by_z=44):
    """Chebyshev coefficients in the table's coordinates, exact to 1e-11."""
    s, t = (
        np.cos(np.pi * (np.arange(count) + 0.5) / count)
        for count in (by_u, by_z)
    )
    u = table.U_CENTRE * (2.0 / (1.0 + s) - 1.0)
    r = (1.0 + t) / (1.0 - t) / table.LOG_SLOPE
    log_z = -2.0 * (r + np.log(-np.expm1(-r)))
    values = np.array([remainder(each, log_z) for each in u])
    left = np.linalg.inv(chebyshev.chebvander(s, by_u - 1))
    right = np.linalg.inv(chebyshev.chebvander(t, by_z - 1))
    return left @ values @ right.T


def factors(coefficients):
    """The leading factors of the interpolant, cut to the table's sizes."""
    rank = len(table.BY_RATIO)
    cut = coefficients[: len(table.BY_RATIO[0]), : len(table.BY_SCALE[0])]
    left, values, right = np.linalg.svd(cut)
    # The sign of a pair of factors is free: the first coefficient decides.
    root = np.sqrt(values[:rank]) * np.sign(left[0, :rank])
    return (left[:, :rank] * root).T, right[:rank] * root[:, None]


def main():
    names = ("BY_RATIO", "BY_SCALE")
    for name, rows in zip(names, factors(interpolant()), strict=True):
        sys.stdout.write(f"{name}: tuple[tuple[float, ...], ...] = (\n")
        for row in rows:
            sys.stdout.write("    (\n")
            for coefficient in chebyshev.cheb2poly(row):
                sys.stdout.write(f"        {coefficient:.7e},\n")
            sys.stdout.write("    ),\n")
        sys.stdout.write(")\n")


if __name__ == "__main__":
    main()
