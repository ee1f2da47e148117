# SPDX-License-Identifier: Apache-2.0
"""The cache of what was traced: bounds, order, threads, memory."""

import gc
import json
import threading
import weakref

import pytest

from keras_bayesdrop.graph.cache import Cache
from tests.helpers import TestCase

_MEGABYTE = 2**20


class Owner:
    pass


def never():
    raise AssertionError("Made again.")


class CacheTest(TestCase):
    def test_makes_once(self):
        cache, owner = Cache(3, 9), Owner()
        self.assertEqual(cache.get(owner, "a", lambda: 1), 1)
        self.assertEqual(cache.get(owner, "a", never), 1)
        self.assertEqual((cache.count(owner), cache.made(owner)), (1, 1))

    def test_none_is_a_value(self):
        cache, owner = Cache(3, 9), Owner()
        cache.get(owner, "a", lambda: None)
        self.assertIsNone(cache.get(owner, "a", never))

    def test_drops_the_least_recently_used_of_an_owner(self):
        cache, owner, other = Cache(3, 9), Owner(), Owner()
        cache.get(other, "a", lambda: 0)
        for key in "abc":
            cache.get(owner, key, lambda: 1)
        cache.get(owner, "a", never)
        cache.get(owner, "d", lambda: 1)
        for key in "acd":
            cache.get(owner, key, never)
        self.assertEqual(cache.count(owner), 3)
        self.assertEqual(cache.get(owner, "b", lambda: 2), 2)
        self.assertEqual(cache.made(owner), 5)
        cache.get(other, "a", never)

    def test_drops_the_least_recently_used_of_all(self):
        cache = Cache(3, 4)
        owners = [Owner() for _ in range(4)]
        for owner in owners:
            cache.get(owner, "a", lambda: 1)
        cache.get(owners[0], "a", never)
        cache.get(owners[3], "b", lambda: 1)
        self.assertEqual([cache.count(o) for o in owners], [1, 0, 1, 2])
        self.assertEqual(cache.count(), 4)

    def test_does_not_keep_owners(self):
        cache, owner = Cache(3, 9), Owner()
        cache.get(owner, "a", lambda: 1)
        gone = weakref.ref(owner)
        del owner
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(cache.count(), 0)

    def test_clears(self):
        cache, owners = Cache(3, 9), [Owner(), Owner()]
        for owner in owners:
            cache.get(owner, "a", lambda: 1)
        cache.clear(owners[0])
        self.assertEqual([cache.count(o) for o in owners], [0, 1])
        cache.clear()
        self.assertEqual(cache.count(), 0)

    def test_keeps_nothing_of_a_failure(self):
        cache, owner = Cache(3, 9), Owner()
        with self.assertRaises(KeyError):
            cache.get(owner, "a", lambda: {}["missing"])
        self.assertEqual(cache.get(owner, "a", lambda: 1), 1)

    def test_one_thread_traces_at_a_time_and_others_read(self):
        first, second = Cache(3, 9), Cache(3, 9)
        owner = Owner()
        first.get(owner, "there", lambda: "there")
        begun, go_on = threading.Event(), threading.Event()
        events = []

        def slow():
            begun.set()
            go_on.wait(60)
            events.append("slow")
            # A trace may ask for more of what is traced.
            return second.get(owner, "nested", lambda: "nested")

        def fast():
            events.append("fast")

        threads = [threading.Thread(target=first.get, args=(owner, "a", slow))]
        threads[0].start()
        begun.wait(60)
        threads.append(
            threading.Thread(target=second.get, args=(owner, "b", fast))
        )
        threads[1].start()
        # What is there is handed out meanwhile.
        self.assertEqual(first.get(owner, "there", never), "there")
        threads[1].join(0.2)
        self.assertEqual(events, [])
        go_on.set()
        for thread in threads:
            thread.join(60)
        self.assertEqual(events, ["slow", "fast"])


_PROGRAM = """
import gc, json
import keras
import numpy as np
import keras_bayesdrop as kbd


def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024


layers = keras.layers
model = keras.Sequential([
    keras.Input((8,)),
    layers.Dense(16),
    layers.LeakyReLU(),
    layers.Dropout(0.5),
    layers.Dense(16, activation="relu"),
    layers.Dropout(0.5),
    layers.Dense(2),
])
x = np.ones((4, 8), "float32")


def predict():
    kbd.predict_with_uncertainty(
        model, x, num_samples=8, seed=0, verbose=0)


def change(number):
    if number % 3 == 0:
        model.layers[2].rate = 0.1 + number / 1e4
    elif number % 3 == 1:
        model.layers[1].negative_slope = 0.1 + number / 1e4
    else:
        model.layers[0].activation = lambda x: x * number
    predict()
    if number % 20 == 0:
        gc.collect()  # dropped programs are in cycles


for number in range(100):
    change(number)
begin = resident()
for number in range(100, 400):
    change(number)
changed = resident()
for _ in range(500):
    predict()
print(json.dumps([changed - begin, resident() - changed]))
"""


class MemoryTest(TestCase):
    @pytest.mark.slow
    def test_is_flat_over_changes_and_calls(self):
        printed = self.run_in_new_process(_PROGRAM)
        changes, calls = json.loads(printed.splitlines()[-1])
        # Kept, the programs of 300 changes would take 0.4 MB each: 120 MB.
        # A tenth of that is more than what the allocator does not give back.
        self.assertLess(changes, 12 * _MEGABYTE)
        # As many bytes for each of 500 calls as a program has would be 200 MB.
        self.assertLess(calls, 4 * _MEGABYTE)
