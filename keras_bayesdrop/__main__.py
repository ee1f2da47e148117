# SPDX-License-Identifier: Apache-2.0
"""`python -m keras_bayesdrop` runs the command `keras-bayesdrop`.

Python imports the package first, so that this way starts more slowly.
"""

import sys

from keras_bayesdrop_command import main

if __name__ == "__main__":
    sys.exit(main())
