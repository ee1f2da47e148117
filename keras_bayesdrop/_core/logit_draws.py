# SPDX-License-Identifier: Apache-2.0
"""Numbers of draws of the noise of logits, which come in pairs."""

from numbers import Integral
from typing import Any

from keras_bayesdrop._core.validate import invalid

# In predictions each pair has a site number of its own.
MOST_DRAWS = 2**16


def check_draws(value: Any) -> int:
    """Returns an argument `num_draws` if it is even and within its bounds."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value % 2 or not 2 <= value <= MOST_DRAWS:
        expected = f"an even integer from 2 to {MOST_DRAWS}"
        raise invalid("num_draws", value, expected)
    return int(value)
