# SPDX-License-Identifier: Apache-2.0
"""Engines: the ways to run a plan."""

from keras_bayesdrop.engines.engine import Engine as Engine
from keras_bayesdrop.engines.reference import Reference as Reference
from keras_bayesdrop.engines.select import assign_steps as assign_steps
from keras_bayesdrop.engines.select import choose_engine as choose_engine
from keras_bayesdrop.engines.select import (
    why_no_fused_engine as why_no_fused_engine,
)
