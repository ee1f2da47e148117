# SPDX-License-Identifier: Apache-2.0
"""Runs random models against brute force: `make fuzz`."""

import sys

from tests.fuzz.runner import main

if __name__ == "__main__":
    sys.exit(main())
