# SPDX-License-Identifier: Apache-2.0
"""Noise sites: the places where a model draws noise, and the way to reach them.

`classify` maps noise layers to their distributions. `inner` reaches noise that
layers keep inside, `inside` follows it through one call, and `handmade`
remakes draws of a layer's own code. `tree` lists the layers inside a layer,
and `select` chooses sites. Other modules use the names below.
"""

from keras_bayesdrop.graph.sites.classify import noise_of as noise_of
from keras_bayesdrop.graph.sites.inner import foreign_cells as foreign_cells
from keras_bayesdrop.graph.sites.inner import hand_made_site as hand_made_site
from keras_bayesdrop.graph.sites.inner import (
    holds_time_distributed as holds_time_distributed,
)
from keras_bayesdrop.graph.sites.inner import inner_sites as inner_sites
from keras_bayesdrop.graph.sites.inner import left_to_owners as left_to_owners
from keras_bayesdrop.graph.sites.inner import redirected as redirected
from keras_bayesdrop.graph.sites.inside import Loop as Loop
from keras_bayesdrop.graph.sites.inside import NoiseInside as NoiseInside
from keras_bayesdrop.graph.sites.select import LayerSelection as LayerSelection
from keras_bayesdrop.graph.sites.select import select_sites as select_sites
from keras_bayesdrop.graph.sites.site import Site as Site
from keras_bayesdrop.graph.sites.tree import is_augmentation as is_augmentation
from keras_bayesdrop.graph.sites.tree import is_known as is_known
from keras_bayesdrop.graph.sites.tree import is_stateful as is_stateful
from keras_bayesdrop.graph.sites.tree import layer_tree as layer_tree
