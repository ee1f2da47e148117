# SPDX-License-Identifier: Apache-2.0
"""The pieces that random models are made of, by kind.

A new kind of layer is a function in one of these modules.
"""

import importlib

from tests.fuzz.kinds.registry import EITHER as EITHER
from tests.fuzz.kinds.registry import IMAGE as IMAGE
from tests.fuzz.kinds.registry import KINDS as KINDS
from tests.fuzz.kinds.registry import REFUSED as REFUSED
from tests.fuzz.kinds.registry import RIGHT as RIGHT
from tests.fuzz.kinds.registry import SEQUENCE as SEQUENCE
from tests.fuzz.kinds.registry import VECTOR as VECTOR
from tests.fuzz.kinds.registry import DoesNotFitError as DoesNotFitError
from tests.fuzz.kinds.registry import Kind as Kind
from tests.fuzz.kinds.registry import Piece as Piece
from tests.fuzz.kinds.registry import apply_all as apply_all
from tests.fuzz.kinds.registry import kinds_in as kinds_in
from tests.fuzz.kinds.registry import layers_of as layers_of

# A seed draws kinds by their place, so the order of registration is fixed.
for module in ("plain", "noise", "containers", "own_noise", "refused"):
    importlib.import_module(f"{__name__}.{module}")
