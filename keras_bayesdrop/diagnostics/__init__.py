# SPDX-License-Identifier: Apache-2.0
"""Reports about a model, and about the installation.

Each function returns a report that prints itself, as text and in a notebook as
HTML. The top level of the package exports the functions; the other names here
are private. This room imports `plots`, `sparsity`, `prediction` and the rooms
before them; `serving`, `training`, `callbacks` and `cli` may import it.
"""

from keras_bayesdrop.diagnostics.consistency_report import (
    consistency as consistency,
)
from keras_bayesdrop.diagnostics.evaluation import (
    evaluate_with_uncertainty as evaluate_with_uncertainty,
)
from keras_bayesdrop.diagnostics.explanation import explain as explain
from keras_bayesdrop.diagnostics.information import info as info
from keras_bayesdrop.diagnostics.inspection import inspect as inspect
from keras_bayesdrop.diagnostics.relevance_report import relevance as relevance
