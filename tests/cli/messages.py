# SPDX-License-Identifier: Apache-2.0
"""The text of an error, checked for its three beats."""

import pytest

from keras_bayesdrop.errors import BayesdropError


def message(call, *args, **kwargs):
    with pytest.raises(BayesdropError) as caught:
        call(*args, **kwargs)
    text = str(caught.value)
    assert "\n" not in text
    # The three beats.
    assert text.index(". Expected ") < text.index(". Received: ")
    return text
