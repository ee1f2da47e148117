# SPDX-License-Identifier: Apache-2.0
"""Seeds a fit, and gives the global generators back afterwards."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_seed

# The seeds that NumPy's global generator takes.
_LARGEST = 2**32 - 1


def seed_of(random_state: Any) -> int:
    """Returns the seed that a `random_state` stands for.

    Args:
        random_state: `None` draws a seed from Python's generator, as a
            prediction without a seed does. A NumPy `RandomState` draws one
            itself.
    """
    if random_state is None:
        return check_seed(None)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_LARGEST, dtype=np.uint32))
    return check_int(random_state, "random_state", 0, _LARGEST)


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seeds everything that Keras draws from inside the context.

    Python's and NumPy's global generators continue afterwards as if nothing
    had been drawn. TensorFlow does not reveal its state, so it continues with
    a seed from Python's generator: draws after two equal fits differ, and
    `keras.utils.set_random_seed` governs them.

    Args:
        seed: The seed; `None` leaves all generators alone.

    Yields:
        Nothing.
    """
    if seed is None:
        yield
        return
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    tf.random.set_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        tf.random.set_seed(random.getrandbits(63))
