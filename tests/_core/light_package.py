# SPDX-License-Identifier: Apache-2.0
"""The package without its `__init__`, for processes that a test starts."""

import os
import pathlib

import keras_bayesdrop as kbd

# Without TensorFlow a process starts fast and may fork.
LIGHT = f"""
import sys; from types import ModuleType
package = ModuleType("keras_bayesdrop")
package.__path__ = [{os.path.dirname(kbd.__file__)!r}]
sys.modules["keras_bayesdrop"] = package
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
"""
