# SPDX-License-Identifier: Apache-2.0
"""Reads models: their graphs, shapes and noise, without changing them.

A survey reads the graph of a model, traces the code that is not Keras' own,
and lists the noise sites. `sites` says which layers are noise and takes their
draws over; `cache` keeps compiled programs and facts per model; `surgery`
copies, cuts and rebuilds models. Other rooms use the names below, and the
fronts of `sites`, `cache` and `surgery`. This room imports `errors`, `_core`,
`random`, `noise`, `regularizers` and `layers`.
"""

from keras_bayesdrop.graph.fingerprint import version_of as version_of
from keras_bayesdrop.graph.observe import Hidden as Hidden
from keras_bayesdrop.graph.observe import Observation as Observation
from keras_bayesdrop.graph.read import Graph as Graph
from keras_bayesdrop.graph.read import Node as Node
from keras_bayesdrop.graph.read import read_graph as read_graph
from keras_bayesdrop.graph.sites import LayerSelection as LayerSelection
from keras_bayesdrop.graph.sites import Site as Site
from keras_bayesdrop.graph.sites import noise_of as noise_of
from keras_bayesdrop.graph.sites import select_sites as select_sites
from keras_bayesdrop.graph.source import ModelView as ModelView
from keras_bayesdrop.graph.source import check_graph as check_graph
from keras_bayesdrop.graph.source import check_source as check_source
from keras_bayesdrop.graph.source import source_of as source_of
from keras_bayesdrop.graph.survey import Survey as Survey
from keras_bayesdrop.graph.survey import find_sites as find_sites
from keras_bayesdrop.graph.survey import survey as survey
from keras_bayesdrop.graph.walk import KERAS_BATCH as KERAS_BATCH
