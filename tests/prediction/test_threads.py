# SPDX-License-Identifier: Apache-2.0
"""Many threads predict at once, from the first call on, beside training."""

import concurrent.futures
import contextlib
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop._core import private_keras
from keras_bayesdrop.graph.cache import programs
from tests import zoo

THREADS = 8
KINDS = (
    "functional",
    "gru",
    "attention",
    "subclassed_deep",
    "nested_three_deep",
    "multi_head_attention",
    "losses",
)
METHODS = {"functional": ("sampling", "moments", "rao_blackwell")}


def predict(model, x, method="sampling"):
    p = kbd.predict_with_uncertainty(
        model, x, num_samples=8, seed=1, verbose=0, method=method
    )
    return [
        array.tobytes()
        for each in keras.tree.flatten(p)
        for array in (each.mean, each.variance)
    ]


def jobs_of(models):
    """Predictions to make, by kind of model and method."""
    return [
        (kind, method)
        for kind in models
        for method in METHODS.get(kind, ("sampling",))
    ]


def at_once(run, number=THREADS):
    """Calls `run` with the numbers of threads that begin together."""
    begin = threading.Barrier(number)

    def start(index):
        begin.wait(60)
        return run(index)

    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        # Raises what a thread raised.
        return list(pool.map(start, range(number)))


@contextlib.contextmanager
def fitting(model, x):
    """Trains a model in a thread of its own; raises what it raised."""
    stop = threading.Event()
    targets = np.zeros_like(np.asarray(model(x)))
    rounds = 0

    def fit():
        nonlocal rounds
        while not stop.is_set():
            model.fit(x, targets, epochs=2, verbose=0)
            rounds += 1

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(fit)
        try:
            yield
        finally:
            stop.set()
        future.result()
    assert rounds


def check_first_calls(kinds, rounds):
    """Compares first calls in many threads with those of one thread."""
    alone = {kind: zoo.ZOO[kind].build() for kind in kinds}
    jobs = jobs_of(kinds)
    want = {job: predict(*alone[job[0]], job[1]) for job in jobs}
    for _ in range(rounds):
        models = {kind: zoo.ZOO[kind].build() for kind in kinds}
        trained, x = zoo.ZOO["gru"].build()
        trained.compile("adam", "mse")

        def run(index, models=models):
            # Every other thread begins with the same model.
            first = index // 2 % len(jobs)
            return {
                job: predict(*models[job[0]], job[1])
                for job in jobs[first:] + jobs[:first]
            }

        with fitting(trained, x):
            results = at_once(run)
        for result in results:
            assert result == want
        for model, _ in models.values():
            assert programs.made(model) == programs.count(model)
            for layer in private_keras.all_layers(model):
                assert "call" not in vars(layer)


def test_first_calls_beside_training():
    check_first_calls(("functional", "gru", "attention"), rounds=1)


@pytest.mark.slow
def test_first_calls_beside_training_many_times():
    check_first_calls(KINDS, rounds=6)


def check_same_model(kind, calls):
    """Predicts with programs that are there while the model is trained."""
    model, x = zoo.ZOO[kind].build()
    model.compile("adam", "mse")
    predict(model, x)
    made = programs.made(model)

    def run(index):
        for _ in range(calls):
            predict(model, x)

    with fitting(model, x):
        at_once(run)
    assert programs.made(model) == made


@pytest.mark.parametrize("kind", ["gru", "losses"])
def test_training_the_same_model(kind):
    check_same_model(kind, calls=5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_training_the_same_model_for_long(kind):
    check_same_model(kind, calls=100)


def test_a_model_is_traced_once():
    model, x = zoo.ZOO["gru"].build()
    at_once(lambda index: predict(model, x))
    other, x = zoo.ZOO["gru"].build()
    predict(other, x)
    assert programs.made(model) == programs.made(other)


class Predicts(keras.callbacks.Callback):
    """Predicts whenever a batch ends."""

    def __init__(self, model, x):
        super().__init__()
        self.other, self.x = model, x
        self.results = []

    def on_predict_batch_end(self, batch, logs=None):
        self.results.append(predict(self.other, self.x))


def test_callbacks_may_predict():
    """In the thread of the prediction, and of a model that was not traced."""
    model, x = zoo.ZOO["gru"].build()
    other = zoo.ZOO["attention"].build()
    want = predict(*other)

    def run(index):
        callback = Predicts(*other)
        kbd.predict_with_uncertainty(
            model, x, num_samples=4, callbacks=[callback], verbose=0
        )
        return callback.results

    for results in at_once(run, number=3):
        assert results == [want]


def test_layers_may_predict():
    """While they are traced, with a model that was not traced before."""
    other = zoo.ZOO["functional"].build()
    seen = []

    class Predicting(keras.layers.Layer):
        def call(self, x):
            with tf.init_scope():
                seen.append(predict(*other))
            return x

    model = keras.Sequential(
        [keras.Input((3,)), Predicting(), keras.layers.Dropout(0.5)]
    )
    kbd.clear_cache(other[0])
    results = at_once(lambda index: predict(model, zoo.numbers(3)), number=3)
    assert results[0] == results[1] == results[2]
    assert len(seen) > 1
    assert all(each == seen[0] for each in seen)


def test_views_that_overlap_put_losses_back():
    """The first call to begin ends first, while the other goes on."""
    inside, first_done = threading.Event(), threading.Event()
    gates = {}

    class Gate(keras.layers.Layer):
        def call(self, x):
            gates.get(threading.get_ident(), lambda: None)()
            return x

    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(3, activity_regularizer="l2"),
            Gate(),
            keras.layers.Dropout(0.5),
        ]
    )
    x = zoo.numbers(3)
    model(x)
    before = [float(loss) for loss in model.losses]
    assert len(before) == 1
    view = kbd.stochastic(model)
    view(x)

    def run(index):
        if index == 0:
            gates[threading.get_ident()] = lambda: (
                inside.set(),
                second_inside.wait(60),
            )
            view(x * 2)
            first_done.set()
        else:
            gates[threading.get_ident()] = lambda: (
                second_inside.set(),
                first_done.wait(60),
            )
            inside.wait(60)
            view(x * 3)

    second_inside = threading.Event()
    at_once(run, number=2)
    assert [float(loss) for loss in model.losses] == before
