# SPDX-License-Identifier: Apache-2.0
"""Removes weights, units and blocks without effect, and reports on them.

`prune` and `prune_depth` return plain Keras models; `sparsity_report`,
`to_sparse_size` and `effective_depth` return reports that print themselves.
Users touch the names exported here. `SparseSource` and `PlainInside` are the
mix-ins by which a layer of one's own takes part. The room imports `layers`,
`regularizers`, `priors` and `graph` with its surgery, and rooms below these.
"""

from keras_bayesdrop.layers.sources import PlainInside as PlainInside
from keras_bayesdrop.layers.sources import SparseSource as SparseSource
from keras_bayesdrop.sparsity._depth import BlockDepth as BlockDepth
from keras_bayesdrop.sparsity._depth import DepthReport as DepthReport
from keras_bayesdrop.sparsity._depth import effective_depth as effective_depth
from keras_bayesdrop.sparsity._prune import prune as prune
from keras_bayesdrop.sparsity._prune import prune_depth as prune_depth
from keras_bayesdrop.sparsity._report import LayerSparsity as LayerSparsity
from keras_bayesdrop.sparsity._report import SparsityReport as SparsityReport
from keras_bayesdrop.sparsity._report import sparsity_report as sparsity_report
from keras_bayesdrop.sparsity._size import SparseSize as SparseSize
from keras_bayesdrop.sparsity._size import to_sparse_size as to_sparse_size
