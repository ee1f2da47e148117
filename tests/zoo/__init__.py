# SPDX-License-Identifier: Apache-2.0
"""Small models of every kind that people build, each with inputs for it.

A member is a function that returns a model and what to predict on. Weights come
from one fixed seed, and no output is saturated, so that noise is visible.
"""

import importlib

from tests.zoo.bits import fingerprint as fingerprint
from tests.zoo.bits import outputs_of as outputs_of
from tests.zoo.members import ROWS as ROWS
from tests.zoo.members import ZOO as ZOO
from tests.zoo.members import Member as Member
from tests.zoo.members import move_statistics as move_statistics
from tests.zoo.members import numbers as numbers
from tests.zoo.members import tokens as tokens

# The members stand in the zoo in this order.
for module in (
    *("graphs", "subclassed", "recurrent", "attention", "noise"),
    *("operations", "training", "dtypes"),
):
    importlib.import_module(f"{__name__}.{module}")
