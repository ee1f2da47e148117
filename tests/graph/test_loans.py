# SPDX-License-Identifier: Apache-2.0
"""Methods lent to one thread: what other threads see meanwhile."""

import inspect
import threading

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.loans import lent
from keras_bayesdrop.graph.loans import original_of
from keras_bayesdrop.graph.loans import own_attributes


class Owner:
    def __init__(self):
        self.number = 1

    def method(self, argument):
        return argument


def test_original_is_found_behind_loans():
    owner = Owner()
    assert original_of(owner, "method") == owner.method
    with lent(owner, "method", lambda argument: -argument):
        assert owner.method(3) == -3
        assert original_of(owner, "method")(3) == 3
    owner.method = own = lambda argument: argument + 1
    with lent(owner, "method", lambda argument: -argument):
        assert original_of(owner, "method") is own
    assert vars(owner)["method"] is own


def test_attributes_do_not_show_loans():
    owner = Owner()
    with lent(owner, "method", print):
        assert "method" in vars(owner)
        assert own_attributes(owner) == {"number": 1}
    owner.method = own = lambda argument: argument
    with lent(owner, "method", print):
        assert own_attributes(owner) == {"number": 1, "method": own}


def test_an_attribute_that_is_none_is_put_back():
    owner = Owner()
    owner.method = None
    with lent(owner, "method", print):
        pass
    assert vars(owner) == {"number": 1, "method": None}


def test_other_threads_see_the_signature_of_the_original():
    """Loans do not change whether a layer takes `training`."""
    layer = keras.layers.Dropout(0.5)
    seen = []

    def look():
        seen.append(inspect.signature(layer.call))
        seen.append(private_keras.accepts(layer, "training"))

    with lent(layer, "call", lambda *args: args):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [inspect.signature(layer.call), True]
