# SPDX-License-Identifier: Apache-2.0
"""Exports predictions with uncertainty as SavedModels, to run without Python.

`_export` checks the request and writes the folder, `_signature` names inputs
and outputs, `_program` traces the prediction, and `quantities` computes what
the signature returns. Users touch the name exported here. The room imports
`prediction`, `engines`, `plan`, `graph` and `views`, and rooms below these.
"""

from keras_bayesdrop.serving._export import (
    export_uncertainty as export_uncertainty,
)
