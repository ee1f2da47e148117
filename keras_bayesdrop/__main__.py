# SPDX-License-Identifier: Apache-2.0
"""`python -m keras_bayesdrop` is the command `keras-bayesdrop`."""

import sys

from keras_bayesdrop.cli import main

if __name__ == "__main__":
    sys.exit(main())
