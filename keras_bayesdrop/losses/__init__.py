# SPDX-License-Identifier: Apache-2.0
"""Losses that are normalised log-likelihoods, in nats."""

from keras_bayesdrop.losses.gaussian_nll import GaussianNLL as GaussianNLL
from keras_bayesdrop.losses.heteroscedastic_gaussian_nll import (
    HeteroscedasticGaussianNLL as HeteroscedasticGaussianNLL,
)
