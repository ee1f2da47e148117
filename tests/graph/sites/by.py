# SPDX-License-Identifier: Apache-2.0
"""Noise inside a layer that a function makes."""

from keras_bayesdrop.graph.sites import NoiseInside


class By(NoiseInside):
    """Perturbs by a function of site and value, and draws nothing else."""

    def __init__(self, perturb):
        super().__init__()
        self._function = perturb

    def at_site(self, site, x, loop):
        return self._function(site, x)

    def by_hand(self, site, function, arguments, loop):
        raise AssertionError(f"{function} is drawn by hand")
