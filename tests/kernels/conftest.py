# SPDX-License-Identifier: Apache-2.0
"""Leaves what the compiler makes of the GPU kernels to those who ask for it.

The figures go with one state of the kernels, which are not built by default.
"""

import os

ASKED = os.environ.get("KBD_TEST_GPU_CODE") == "1"
collect_ignore_glob = [] if ASKED else ["test_gpu_*.py"]
