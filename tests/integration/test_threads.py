# SPDX-License-Identifier: Apache-2.0
"""Predictions of one model in several threads."""

import threading

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests import zoo
from tests.helpers import flat
from tests.integration.samples import settings


@pytest.mark.parametrize(
    "kind", ["functional", "subclassed_deep", "simple_rnn"]
)
def test_another_thread_predicts_without_noise(kind):
    """While one thread samples, another one's predictions stay certain."""
    model, x = zoo.ZOO[kind].build()
    want = np.asarray(model(x, training=False))
    view = kbd.stochastic(model)
    view(x)
    stop = threading.Event()
    seen = []

    def look():
        while not stop.is_set():
            seen.append(np.asarray(model(x, training=False)))
            seen.append(model.predict_on_batch(x))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for masks in ("shared", "independent"):
            view(x)
            kbd.predict_with_uncertainty(
                model, x, **flat(**settings(masks=masks))
            )
    finally:
        stop.set()
        thread.join()
    assert len(seen) >= 2
    for got in seen:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


class Gated(keras.Model):
    """Waits at a gate of the calling thread before it drops."""

    def __init__(self):
        super().__init__()
        self.drop = keras.layers.Dropout(0.5)
        self.gates = {}

    def call(self, x):
        self.gates.get(threading.get_ident(), lambda: None)()
        return self.drop(x)


def test_two_threads_sample_at_once():
    """The second to begin is the last to end; both must be noisy."""
    model = Gated()
    x = np.ones((4, 50), "float32")
    model(x)
    views = [kbd.stochastic(model, seed=i) for i in range(2)]
    for view in views:
        view(x)  # traces, where the gates are open
    first_inside, second_inside, first_done = (
        threading.Event() for _ in range(3)
    )
    results = {}

    def run(number, gate, done=None):
        model.gates[threading.get_ident()] = gate
        results[number] = np.asarray(views[number](x))
        if done is not None:
            done.set()

    def first_gate():
        first_inside.set()
        second_inside.wait(1)

    def second_gate():
        second_inside.set()
        first_done.wait(5)

    threads = [
        threading.Thread(target=run, args=(0, first_gate, first_done)),
        threading.Thread(target=run, args=(1, second_gate)),
    ]
    threads[0].start()
    first_inside.wait(5)
    threads[1].start()
    for thread in threads:
        thread.join()
    for result in results.values():
        # 200 units: none dropped with probability 2^-200.
        assert np.any(result == 0)
    assert "call" not in vars(model.drop)
    np.testing.assert_array_equal(model(x), x)
