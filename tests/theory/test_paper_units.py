# SPDX-License-Identifier: Apache-2.0
"""Single units: their gradients and their spread (11.4, 11.5, 11.7)."""

import numpy as np

from keras_bayesdrop.theory import linear_moments
from tests.theory.masks import all_masks
from tests.theory.orders import GAIN
from tests.theory.orders import C
from tests.theory.orders import bend
from tests.theory.orders import sigma


def test_eq_159_and_160_have_a_minus():
    """In print, the last form of both lacks it."""
    rng = np.random.default_rng(5)
    x, w, target, step = rng.normal(size=3), rng.normal(size=3), 0.7, 1e-30
    masks, _ = all_masks(np.full(3, 0.4))
    # The masks of eq. 160 one by one, and the means of the masks of eq. 159.
    for mask in [*masks, np.full(3, 0.6)]:
        moved = w + 1j * step * np.eye(3)
        o = sigma(moved @ (mask * x))
        error = -target * np.log(o) - (1 - target) * np.log(1 - o)
        exact = np.imag(error) / step
        last = GAIN * (target - sigma(w @ (mask * x))) * mask * x
        np.testing.assert_allclose(exact, -last, rtol=1e-12)


def test_after_eq_188_the_bend_is_negative_above_zero():
    """And not only above 0.5."""
    step = 1e-4
    for x in (0.05, 0.25, 0.45, 2.0):
        sides = [sigma(x + n * step, 1.0, 1.0) for n in (-1, 0, 1)]
        second = (sides[0] - 2 * sides[1] + sides[2]) / step**2
        assert second < 0
        np.testing.assert_allclose(bend(x, 1.0, 1.0), second, rtol=1e-4)
    np.testing.assert_allclose(bend(np.log(C) / GAIN), 0.0, atol=1e-15)


def test_eq_189_sums_over_layers_and_units():
    rng = np.random.default_rng(4)
    outputs = [rng.uniform(size=3), rng.uniform(size=2)]
    kernels = [rng.normal(size=(3, 1)), rng.normal(size=(2, 1))]
    rates = [rng.uniform(0.1, 0.9, 3), rng.uniform(0.1, 0.9, 2)]
    masks, chances = all_masks(np.concatenate(rates))
    total = (masks * np.concatenate(outputs)) @ np.concatenate(kernels)
    exact = chances @ (total - chances @ total) ** 2
    terms = [
        kernel[:, 0] ** 2 * output**2 * rate * (1 - rate)
        for kernel, output, rate in zip(kernels, outputs, rates, strict=True)
    ]
    np.testing.assert_allclose(sum(map(np.sum, terms)), exact, rtol=1e-12)
    # As printed, over layers alone: one unit of each.
    assert sum(each.max() for each in terms) < 0.9 * exact
    alone = linear_moments(
        outputs[0][None], [kernels[0]], [rates[0]], inverted=False
    )
    np.testing.assert_allclose(
        np.ravel(alone.variance[-1]), terms[0].sum(), rtol=1e-12
    )
