# SPDX-License-Identifier: Apache-2.0
"""Copies layers, replaces them by plain ones, and rebuilds models from them.

`kernels` finds the kernels of a model, `copies` copies a layer with its
weights, `plain` replaces a layer of this package by Keras layers without noise,
`names` keeps layer names unique, and `rebuild` builds a new model in the graph
of an old one. The users are `sparsity`, `theory`, `plots` and `diagnostics`.
They import the names exported here, never the modules inside. The room imports
`layers`, `noise`, `regularizers`, `graph.read` and rooms below these.
"""

from keras_bayesdrop.graph.surgery.copies import Replacement as Replacement
from keras_bayesdrop.graph.surgery.copies import copy_layer as copy_layer
from keras_bayesdrop.graph.surgery.copies import (
    is_user_defined as is_user_defined,
)
from keras_bayesdrop.graph.surgery.copies import new_layer as new_layer
from keras_bayesdrop.graph.surgery.kernels import KERNEL_LAYERS as KERNEL_LAYERS
from keras_bayesdrop.graph.surgery.kernels import BoolArray as BoolArray
from keras_bayesdrop.graph.surgery.kernels import Kernel as Kernel
from keras_bayesdrop.graph.surgery.kernels import KernelMasks as KernelMasks
from keras_bayesdrop.graph.surgery.kernels import as_array as as_array
from keras_bayesdrop.graph.surgery.kernels import find_kernels as find_kernels
from keras_bayesdrop.graph.surgery.kernels import (
    layers_by_path as layers_by_path,
)
from keras_bayesdrop.graph.surgery.names import LayerNames as LayerNames
from keras_bayesdrop.graph.surgery.plain import (
    plain_replacements as plain_replacements,
)
from keras_bayesdrop.graph.surgery.rebuild import names_of as names_of
from keras_bayesdrop.graph.surgery.rebuild import rebuild as rebuild
