# SPDX-License-Identifier: Apache-2.0
"""Exact moments of small networks, by a sum over all masks."""

import itertools

import keras
import numpy as np

layers = keras.layers


class Masked(layers.Dropout):
    """Dropout whose mask can be set."""

    mask = None
    width = 0

    def build(self, shape):
        self.width = shape[-1]
        super().build(shape)

    def call(self, inputs, training=None):
        return super().call(inputs, training=training)

    def __call__(self, x, *args, **kwargs):
        if self.mask is not None and not keras.backend.is_keras_tensor(x):
            return x * self.mask.astype(x.dtype.as_numpy_dtype)
        return super().__call__(x, *args, **kwargs)


def enumerate_masks(model, x):
    """Returns mean and covariance over all masks, the rows of one call.

    The masks are set through layers that multiply by a constant.
    """
    sites = [layer for layer in model.layers if isinstance(layer, Masked)]
    widths = [site.width for site in sites]
    bits = itertools.product((0.0, 1.0), repeat=sum(widths))
    masks = np.split(np.array(list(bits)), np.cumsum(widths)[:-1], axis=1)
    probability = np.ones(len(masks[0]))
    for site, mask in zip(sites, masks, strict=True):
        rate = site.rate
        probability *= np.prod(np.where(mask, 1 - rate, rate), axis=1)
        site.mask = mask / (1 - rate)
    np.testing.assert_allclose(probability.sum(), 1.0, rtol=1e-12)
    means, covariances = [], []
    for row in x:
        tiled = np.repeat(row[None], len(probability), axis=0)
        y = np.asarray(model(tiled, training=False), np.float64)
        means.append(probability @ y)
        centered = y - means[-1]
        covariances.append((probability[:, None] * centered).T @ centered)
    for site in sites:
        site.mask = None
    return np.stack(means), np.stack(covariances)
