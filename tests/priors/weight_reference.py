# SPDX-License-Identifier: Apache-2.0
"""Expectations over a Gaussian, worked out in other ways than the package."""

import mpmath
import numpy as np
import tensorflow as tf

mpmath.mp.dps = 40


def half_line(ratio):
    """Nodes and weights for |ratio + e|, e ~ N(0, 1), in double precision.

    Gauss-Legendre panels of 20 points, which halve towards zero, where the
    integrands have their singularity.
    """
    nodes, left, right = _half_lines(ratio)
    return nodes, left + right


def expectation(function, mean, sigma):
    """E function(|w|) for w ~ N(mean, sigma^2), and sigma times d/dmean.

    Args:
        function: Takes |w| to the value and its derivative by |w|.
        mean: Float, not negative.
        sigma: Positive float.
    """
    nodes, right, left = _half_lines(mean / sigma)
    value, slope = function(sigma * nodes)
    return (right + left) @ value, sigma * ((right - left) @ slope)


def _half_lines(ratio):
    """The nodes, and the weights of e = x - ratio and of e = -x - ratio."""
    if ratio < 16.0:
        halves = 2.0 ** np.arange(-110.0, 0.0)
        edges = np.r_[0.0, halves, np.arange(1.0, ratio + 12.6, 0.5)]
    else:
        edges = np.arange(ratio - 12.0, ratio + 12.1, 0.5)
    x, w = np.polynomial.legendre.leggauss(20)
    centre, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes = (centre[:, None] + half[:, None] * x).ravel()
    weights = (half[:, None] * w).ravel() / np.sqrt(2.0 * np.pi)
    right = weights * np.exp(-((nodes - ratio) ** 2) / 2)
    return nodes, right, weights * np.exp(-((nodes + ratio) ** 2) / 2)


def kl_by_definition(minus_log_prior, mean, sigma, breaks=(), digits=40):
    """E_q[log q(w) - log p(w)] by quadrature.

    Args:
        minus_log_prior: Function of an `mpmath` number.
        mean: Number.
        sigma: Positive number.
        breaks: Points where the prior changes fast or has a pole.
        digits: Of the arithmetic, and about that many of the result.
    """
    with mpmath.workdps(digits):
        mean, sigma = mpmath.mpf(mean), mpmath.mpf(sigma)
        points = {mean + k * sigma for k in (-15, -5, 0, 5, 15)}
        points |= {mpmath.mpf(each) for each in breaks}
        # A little more than 15, for the rounding of the outermost points.
        inside = sorted(p for p in points if abs(p - mean) <= 15.1 * sigma)
        expected = mpmath.quad(
            lambda w: mpmath.npdf(w, mean, sigma) * minus_log_prior(w), inside
        )
        return expected - mpmath.log(2 * mpmath.pi * mpmath.e * sigma**2) / 2


def kl0(u):
    """KL0(u) of the log-uniform prior, from its hypergeometric form."""
    u = mpmath.mpf(u)
    return u * mpmath.hyp2f2(1, 1, mpmath.mpf(3) / 2, 2, -u)


def kl0_slope(u):
    """dKL0/du = D+(sqrt u) / sqrt u, from Kummer's function."""
    return mpmath.hyp1f1(1, mpmath.mpf(3) / 2, -mpmath.mpf(u))


def with_gradients(function, *arguments, jit_compile=False):
    """The function and its derivatives by each argument, as float64."""

    def both(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        none = tf.UnconnectedGradients.ZERO
        return (value, *tape.gradient(value, tensors, None, none))

    if jit_compile:
        both = tf.function(both, jit_compile=True)
    tensors = [tf.convert_to_tensor(argument) for argument in arguments]
    return [each.numpy().astype(np.float64) for each in both(*tensors)]
