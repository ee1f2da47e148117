# SPDX-License-Identifier: Apache-2.0
"""A predictor sees changes of its model, and threads may share it."""

import concurrent.futures
import copy
import gc
import pickle
import weakref

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests import zoo
from tests.prediction.changes import CHANGES
from tests.prediction.changes import X as ROWS
from tests.prediction.changes import make
from tests.prediction.predictors import Ways
from tests.prediction.predictors import assert_equal
from tests.prediction.predictors import whole_call
from tests.prediction.test_predictor_equality import X
from tests.prediction.test_predictor_equality import dense

layers = keras.layers


@pytest.fixture
def ways(monkeypatch):
    return Ways(monkeypatch)


def test_it_reads_new_weights(ways):
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)
    before = predictor(X)
    model.set_weights([w + 0.5 for w in model.get_weights()])
    after = predictor(X)
    assert ways.short == 1
    assert np.abs(after.mean - before.mean).max() > 0.01
    assert_equal(after, whole_call(model, X, 20, seed=1))
    model.compile("sgd", "mse")
    model.fit(X, X[:, :2], verbose=0)
    assert_equal(predictor(X), whole_call(model, X, 20, seed=1))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", ["sampling", "rao_blackwell"])
def test_it_sees_changes(method, change):
    model = make(where="before")
    predictor = kbd.Predictor(model, 20, seed=1, method=method)
    predictor(ROWS)
    before = predictor(ROWS)
    CHANGES[change](model)
    after = predictor(ROWS)
    expected = whole_call(model, ROWS, 20, seed=1, method=method)
    assert_equal(after, expected)
    assert_equal(predictor(ROWS), expected)
    assert np.abs(after.mean - before.mean).max() > 1e-3


def test_it_sees_what_is_added_replaced_and_frozen():
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)

    def check():
        for _ in range(2):
            assert_equal(predictor(X), whole_call(model, X, 20, seed=1))

    check()
    model.add(layers.Dropout(0.5))
    check()
    model.pop()
    check()
    model.layers[0].trainable = False
    check()
    model.layers[0].activation = keras.activations.tanh
    check()
    del model.layers[0].activation
    model.layers[0].activation = keras.activations.relu
    check()
    model.compile("sgd", "mse")
    check()
    kbd.clear_cache(model)
    check()


def test_a_change_that_cannot_be_seen_counts_after_clear_cache():
    model = make(where="before")
    predictor = kbd.Predictor(model, 20, seed=1)
    predictor(ROWS)
    before = predictor(ROWS)
    model.get_layer("own")._private = 3.0
    assert_equal(predictor(ROWS), before)
    kbd.clear_cache(model)
    after = predictor(ROWS)
    assert np.abs(after.mean - before.mean).max() > 1e-3
    assert_equal(after, whole_call(model, ROWS, 20, seed=1))


def test_noise_that_goes_away_is_an_error():
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)
    predictor(X)
    model.layers[1].rate = 0.0
    with pytest.raises(
        kbd.errors.NothingToSampleError, match="no active noise"
    ):
        predictor(X)
    model.layers[1].rate = 0.4
    assert_equal(predictor(X), whole_call(model, X, 20, seed=1))


def test_a_view_of_another_model():
    one, other = dense(0), dense(1)
    view = kbd.stochastic(one)
    predictor = kbd.Predictor(view, 20, seed=1)
    for source in (one, other):
        view.source = source
        for _ in range(2):
            assert_equal(predictor(X), whole_call(source, X, 20, seed=1))


@pytest.mark.parametrize(
    "kind", ["functional", "gru", "subclassed_deep", "multi_head_attention"]
)
def test_threads_share_it(kind):
    model, x = zoo.ZOO[kind].build()
    seeds = range(6)
    expected = [whole_call(model, x, 20, seed=seed) for seed in seeds]
    kbd.clear_cache(model)
    predictor = kbd.Predictor(model, 20, seed=0)

    def run(thread):
        return [(s, predictor(x, seed=s)) for s in (*seeds, *seeds, thread)]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        results = list(pool.map(run, seeds))
    for seed, p in (pair for result in results for pair in result):
        assert_equal(p, expected[seed])


def test_a_model_changes_while_threads_predict():
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1)
    known = {}
    for rate in (0.4, 0.2):
        model.layers[1].rate = rate
        known[whole_call(model, X, 20, seed=1).variance.tobytes()] = rate

    def predict(_):
        return [predictor(X).variance.tobytes() for _ in range(40)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = pool.map(predict, range(4))
        for turn in range(40):
            model.layers[1].rate = (0.4, 0.2)[turn % 2]
        seen = {bits for result in running for bits in result}
    assert seen <= known.keys()
    assert known[predictor(X).variance.tobytes()] == 0.2


def test_pickles_and_copies_predict_the_same():
    model = dense(0)
    predictor = kbd.Predictor(model, 20, seed=1, quantiles=[0.5])
    expected = predictor(X)
    for other in (pickle.loads(pickle.dumps(predictor)), copy.copy(predictor)):
        for _ in range(2):
            assert_equal(other(X), expected)


def test_it_keeps_its_model_alive_and_nothing_else_does():
    predictor = kbd.Predictor(dense(0), 20, seed=1)
    predictor(X)
    predictor(X)
    model = weakref.ref(predictor.model)
    gc.collect()
    assert model() is not None
    del predictor
    gc.collect()
    assert model() is None
