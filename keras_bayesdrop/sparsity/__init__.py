# SPDX-License-Identifier: Apache-2.0
"""Sparse networks: what can be removed, and models without it."""

from keras_bayesdrop.layers.sources import PlainInside as PlainInside
from keras_bayesdrop.layers.sources import SparseSource as SparseSource
from keras_bayesdrop.sparsity.depth import BlockDepth as BlockDepth
from keras_bayesdrop.sparsity.depth import DepthReport as DepthReport
from keras_bayesdrop.sparsity.depth import effective_depth as effective_depth
from keras_bayesdrop.sparsity.prune import prune as prune
from keras_bayesdrop.sparsity.prune_depth import prune_depth as prune_depth
from keras_bayesdrop.sparsity.report import LayerSparsity as LayerSparsity
from keras_bayesdrop.sparsity.report import SparsityReport as SparsityReport
from keras_bayesdrop.sparsity.report import sparsity_report as sparsity_report
from keras_bayesdrop.sparsity.size import SparseSize as SparseSize
from keras_bayesdrop.sparsity.size import to_sparse_size as to_sparse_size
