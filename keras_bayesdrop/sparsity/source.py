# SPDX-License-Identifier: Apache-2.0
"""The mix-ins of layers that can be made plain.

The layers of this package import them from `keras_bayesdrop._sparse_source`:
this package imports those layers.
"""

from keras_bayesdrop._sparse_source import PlainInside as PlainInside
from keras_bayesdrop._sparse_source import SparseSource as SparseSource
