# SPDX-License-Identifier: Apache-2.0
"""Engines: the ways to run a plan."""

from keras_bayesdrop.engines.engine import Engine as Engine
from keras_bayesdrop.engines.reference import Reference as Reference
from keras_bayesdrop.engines.select import choose_engine as choose_engine
