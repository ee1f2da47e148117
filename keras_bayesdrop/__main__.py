# SPDX-License-Identifier: Apache-2.0
"""`python -m keras_bayesdrop info` prints what is installed here.

What TensorFlow says when it starts goes to the standard error, and comes
before: the package, and TensorFlow with it, is imported before this file runs.
"""

import sys
from collections.abc import Sequence

from keras_bayesdrop.information import info

USAGE = """\
Usage: python -m keras_bayesdrop info

  info  Print versions, the op library, the machine, and the engine in use.
"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments name.

    Args:
        arguments: What follows the name of the module.

    Returns:
        0, or 2 if the arguments are wrong.
    """
    if list(arguments) != ["info"]:
        sys.stderr.write(USAGE)
        return 2
    info()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
