# SPDX-License-Identifier: Apache-2.0
"""Views see changes of the model behind them."""

import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.prediction.changes import CHANGES
from tests.prediction.changes import X
from tests.prediction.changes import make

VIEWS = {
    "deterministic": kbd.deterministic,
    "sample_function": lambda model: kbd.sample_function(model, seed=3),
    "stochastic": lambda model: kbd.stochastic(model, seed=3),
}


@pytest.mark.parametrize("make_view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("change", ["epsilon", "lambda", "gain", "call"])
def test_views_see_changes(make_view, change):
    model, twin = make(where="behind"), make(where="behind")
    view, fresh = make_view(model), make_view(twin)
    before = view.predict(X, verbose=0)
    fresh(X)  # as many draws
    CHANGES[change](model)
    CHANGES[change](twin)
    after = view.predict(X, verbose=0)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, fresh.predict(X, verbose=0))
    np.testing.assert_allclose(view(X), fresh(X))


def test_views_evaluate_and_fit_what_is_there():
    model, twin = make(where="behind"), make(where="behind")
    view, fresh = kbd.deterministic(model), kbd.deterministic(twin)
    targets = np.zeros((5, 2), "float32")
    for each in (view, fresh):
        each.compile("sgd", "mse")
    before = view.evaluate(X, targets, verbose=0)
    view.fit(X, targets, verbose=0)
    twin.set_weights(model.get_weights())
    CHANGES["gain"](model)
    CHANGES["gain"](twin)
    assert view.evaluate(X, targets, verbose=0) != before
    losses = [each.evaluate(X, targets, verbose=0) for each in (view, fresh)]
    assert losses[0] == losses[1]
    losses = [
        each.fit(X, targets, verbose=0, shuffle=False).history["loss"]
        for each in (view, fresh)
    ]
    assert losses[0] == losses[1]


def test_views_do_not_trace_without_a_change():
    view = kbd.deterministic(make(where="behind"))
    view.predict(X, verbose=0)
    function = view.predict_function
    view.predict(X, verbose=0)
    assert view.predict_function is function
