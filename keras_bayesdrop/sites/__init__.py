# SPDX-License-Identifier: Apache-2.0
"""Noise sites: where a model draws noise, and how to reach it."""

from keras_bayesdrop.sites.classify import noise_of as noise_of
from keras_bayesdrop.sites.hidden import hidden_noise as hidden_noise
from keras_bayesdrop.sites.inner import Perturb as Perturb
from keras_bayesdrop.sites.inner import inner_sites as inner_sites
from keras_bayesdrop.sites.inner import redirected as redirected
from keras_bayesdrop.sites.select import LayerSelection as LayerSelection
from keras_bayesdrop.sites.select import select_sites as select_sites
from keras_bayesdrop.sites.site import Site as Site
