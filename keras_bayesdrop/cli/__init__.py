# SPDX-License-Identifier: Apache-2.0
"""The command line: `keras-bayesdrop`, or `python -m keras_bayesdrop`.

One command a file. What takes long to import (Keras, TensorFlow) is imported
by the functions that run a command, so that help and complaints about the
arguments are there at once.
"""

from keras_bayesdrop.cli.command import main as main
