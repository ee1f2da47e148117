# SPDX-License-Identifier: Apache-2.0
"""Checks the order of an approximation; the logistic function."""

import numpy as np

GAIN, C = 1.7, 0.6


def sigma(s, gain=GAIN, c=C):
    """The logistic function of the publication."""
    return 1 / (1 + c * np.exp(-gain * s))


def slope(s, gain=GAIN, c=C):
    """Its derivative: print lacks the gain in the text after eq. 163."""
    o = sigma(s, gain, c)
    return gain * o * (1 - o)


def bend(s, gain=GAIN, c=C):
    """Its second derivative: print has the gain and not its square, app. D."""
    o = sigma(s, gain, c)
    return gain**2 * o * (1 - o) * (1 - 2 * o)


def assert_order(error, order, size=1 / 64):
    """Asserts that an error shrinks like `size**order`.

    Args:
        error: Function of a size, whose value is a number or an array.
        order: Positive int.
        size: Where to begin: the next order is that much smaller, times a
            factor that depends on the weights. It may change the ratio by a
            tenth.
    """
    large = np.abs(error(size)).max()
    small = np.abs(error(size / 2)).max()
    ratio = large / small
    assert 0.9 * 2**order < ratio < 1.1 * 2**order, ratio
