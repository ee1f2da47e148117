# SPDX-License-Identifier: Apache-2.0
"""Leaves these tests to `make test-gpu`, which runs them on a GPU.

Elsewhere they are not collected at all: a test that is skipped is easily taken
for one that has passed.
"""

import os

import pytest

ASKED = os.environ.get("KBD_TEST_GPU") == "1"
collect_ignore_glob = [] if ASKED else ["test_*.py"]


@pytest.fixture(autouse=True, params=[False], ids=["exact"])
def tf32(request):
    """Whether float32 may be rounded to TF32; tests ask for `True` by name."""
    import tensorflow as tf

    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(request.param)
    yield request.param
    tf.config.experimental.enable_tensor_float_32_execution(before)
