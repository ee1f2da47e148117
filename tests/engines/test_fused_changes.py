# SPDX-License-Identifier: Apache-2.0
"""The fused engine follows models that change between calls."""

import gc
import weakref

import keras
import numpy as np
import pytest

from keras_bayesdrop._core import op_library
from keras_bayesdrop.graph.cache import programs
from tests import zoo
from tests.engines.both_engines import ROWS
from tests.engines.both_engines import assert_close
from tests.engines.both_engines import assert_same
from tests.engines.both_engines import engines_of
from tests.engines.both_engines import fused_paths
from tests.engines.both_engines import samples
from tests.engines.chain_models import normalizations

problem = op_library.library().problem
needs_library = pytest.mark.skipif(bool(problem), reason=problem)


@needs_library
def test_weights_that_change_between_calls():
    model, x = normalizations()
    model.compile("sgd", "mse")
    before = samples(model, x, "fused")
    model.fit(x, np.ones((ROWS, 2)), epochs=2, verbose=0)
    fitted = samples(model, x, "fused")
    assert_close(fitted, samples(model, x, "reference"))
    assert np.abs(fitted[0] - before[0]).max() > 1e-3
    model.set_weights([weight * 1.5 for weight in model.get_weights()])
    set_anew = samples(model, x, "fused")
    assert_close(set_anew, samples(model, x, "reference"))
    assert np.abs(set_anew[0] - fitted[0]).max() > 1e-3
    model.get_layer("b").moving_mean.assign(np.full(6, 3.0))
    shifted = samples(model, x, "fused")
    assert_close(shifted, samples(model, x, "reference"))
    assert np.abs(shifted[0] - set_anew[0]).max() > 1e-3


@needs_library
def test_layers_that_change_between_calls():
    model, x = normalizations()
    before = samples(model, x, "fused")
    for change in (
        lambda: setattr(model.get_layer("a"), "rate", 0.6),
        lambda: setattr(
            model.get_layer("j"), "activation", keras.activations.tanh
        ),
        lambda: model.get_layer("c").enable_lora(2),
        lambda: model.get_layer("c").lora_kernel_b.assign(np.ones((2, 9))),
    ):
        change()
        after = samples(model, x, "fused")
        assert_close(after, samples(model, x, "reference"))
    assert np.abs(after[0] - before[0]).max() > 1e-3


@needs_library
def test_saved_and_loaded(tmp_path):
    model, x = normalizations()
    before = samples(model, x, "fused")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(samples(loaded, x, "fused"), before)
    assert fused_paths(loaded) == fused_paths(model)


@needs_library
@pytest.mark.parametrize("chosen", ["a", "i", ["a", "i"]])
def test_sites_that_are_off(chosen):
    model, x = normalizations()
    assert_close(
        samples(model, x, "fused", layers=chosen),
        samples(model, x, "reference", layers=chosen),
    )
    told = engines_of(model, layers=chosen, engine="fused")
    assert told["i"][0] == "fused"
    assert (told["a"] == ("reference", "no noise reaches it")) == (
        chosen == "i"
    )


@needs_library
def test_the_model_is_not_kept_alive_and_not_changed():
    model, x = normalizations()
    outputs, before = zoo.outputs_of(model, x), zoo.fingerprint(model)
    samples(model, x, "fused")
    assert zoo.fingerprint(model) == before
    assert zoo.outputs_of(model, x) == outputs
    gone = weakref.ref(model)
    del model
    keras.utils.clear_session()
    gc.collect()
    assert gone() is None


@needs_library
def test_predicting_again_traces_nothing():
    model, x = normalizations()
    samples(model, x, "fused")
    traces = programs.made(model)
    assert traces
    samples(model, x[:3], "fused", seed=9)
    model.set_weights(model.get_weights())
    samples(model, x, "fused", seed=10)
    assert programs.made(model) == traces
