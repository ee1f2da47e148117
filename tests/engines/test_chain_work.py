# SPDX-License-Identifier: Apache-2.0
"""The work of a prediction: dropped units are cut out, a prefix runs once.

Results do not tell: without cutting or subtraction they are the same, and take
twice the time. So the strategies and multiply-adds are asserted here.
"""

import dataclasses
import functools
import itertools
from unittest import mock

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop._core import op_library
from keras_bayesdrop.engines import chain_work
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction.sampling import geometry
from keras_bayesdrop.prediction.sampling import programs

problem = op_library.library().problem
needs_library = pytest.mark.skipif(bool(problem), reason=problem)
layers = keras.layers
_prefix = programs.Sampler.prefix

# Rates of the input and of hidden units, and the widths of all layers. (A few
# columns, as 10, are not worth skipping zeros for.)
RATES = (0.2, 0.5)
WIDTHS = (784, 200, 300, 64)
SIZES = [a * b for a, b in itertools.pairwise(WIDTHS)]


def network(rates=RATES, prefix=False, last="linear"):
    stack = [keras.Input((WIDTHS[0],))]
    if prefix:
        stack.append(layers.Dense(WIDTHS[0], name="before"))
    for number, units in enumerate(WIDTHS[1:]):
        stack.append(layers.Dropout(rates[min(number, 1)]))
        activation = "relu" if number < len(WIDTHS) - 2 else last
        stack.append(layers.Dense(units, activation=activation))
    return keras.Sequential(stack)


def rows(count):
    return np.random.default_rng(0).normal(size=(count, WIDTHS[0]))


def predict(model, x, samples=20, masks="shared", **arguments):
    return kbd.predict_with_uncertainty(
        model,
        x,
        samples,
        seed=1,
        verbose=0,
        method=kbd.Sampling(masks=masks, engine="fused"),
        **arguments,
    )


@needs_library
def test_shared_masks_are_cut_and_the_first_step_subtracts():
    (work,) = predict(network(), rows(256)).stats.chains
    first, hidden, last = SIZES
    # The first product whole and once; for each sample 0.2 of its rows, and in
    # each step the columns that the next one keeps.
    left = first + 20 * (first * 0.2 * 0.5 + hidden * 0.5 * 0.5 + last * 0.5)
    assert work.strategy == "cut"
    assert work.subtracts
    assert work.multiply_adds == pytest.approx(256 * left, rel=1e-6)
    assert work.whole_multiply_adds == 256 * 20 * sum(SIZES)
    assert work.multiply_adds < 0.25 * work.whole_multiply_adds


@needs_library
def test_large_rates_are_cut_without_subtraction():
    (work,) = predict(network((0.5, 0.5)), rows(256)).stats.chains
    first, hidden, last = SIZES
    left = 20 * (first * 0.25 + hidden * 0.25 + last * 0.5)
    assert (work.strategy, work.subtracts) == ("cut", False)
    assert work.multiply_adds == pytest.approx(256 * left, rel=1e-6)


@needs_library
def test_independent_masks_skip_what_half_of_a_row_is():
    (work,) = predict(network(), rows(256), masks="independent").stats.chains
    first, hidden, last = SIZES
    left = 20 * (first + hidden * 0.5 + last * 0.5)
    assert (work.strategy, work.subtracts) == ("masked", False)
    assert work.multiply_adds == pytest.approx(256 * left, rel=1e-6)


@needs_library
def test_one_row_reads_each_weight_once():
    (work,) = predict(network(), rows(1)).stats.chains
    first, hidden, last = SIZES
    left = first + 20 * (first * 0.2 + hidden * 0.5 + last * 0.5)
    assert (work.strategy, work.subtracts) == ("columns", True)
    assert work.multiply_adds == pytest.approx(left, rel=1e-6)


@needs_library
def test_work_of_all_batches_and_blocks_is_added_up():
    whole = predict(network(), rows(300), 40)
    parts = predict(network(), rows(300), 40, batch_size=128)
    (one,), (several,) = whole.stats.chains, parts.stats.chains
    assert one.whole_multiply_adds == 300 * 40 * sum(SIZES)
    assert several.whole_multiply_adds == one.whole_multiply_adds
    # Only the first product is made anew, for each block of samples.
    assert one.multiply_adds <= several.multiply_adds
    assert several.multiply_adds < 1.3 * one.multiply_adds


@needs_library
def test_learned_rates_and_input_that_differs_between_samples():
    inputs = keras.Input((60,))
    x = layers.Dropout(0.5)(inputs)
    x = layers.LayerNormalization()(x)
    outputs = kbd.layers.ConcreteDropout(
        layers.Dense(40), init_rate=0.25, num_train_examples=100
    )(x)
    model = keras.Model(inputs, outputs)
    x = np.ones((90, 60), np.float32)
    (work,) = predict(model, x).stats.chains
    # There is no product that all samples share.
    assert not work.subtracts
    share = work.multiply_adds / work.whole_multiply_adds
    assert share == (
        pytest.approx(0.75, rel=1e-5) if work.strategy == "cut" else 1
    )


def test_the_prefix_runs_once_for_a_batch():
    for engine in ("auto", "reference"):
        method = kbd.Sampling(engine=engine)
        for samples in (2, 50):
            p = kbd.predict_with_uncertainty(
                network(prefix=True),
                rows(5),
                samples,
                batch_size=2,
                verbose=0,
                method=method,
            )
            assert p.stats.prefix_runs == 3
        p = kbd.predict_with_uncertainty(
            network(), rows(5), 2, verbose=0, method=method
        )
        assert p.stats.prefix_runs == 0


def test_the_count_of_prefixes_is_that_of_calls():
    model = network(prefix=True)
    with mock.patch.object(
        programs.Sampler, "prefix", autospec=True, side_effect=_prefix
    ) as prefix:
        # The first prediction tries out whether rows mix.
        predict_once = functools.partial(
            kbd.predict_with_uncertainty, model, rows(6), batch_size=3
        )
        predict_once(verbose=0)
        for samples in (5, 80):
            prefix.reset_mock()
            p = predict_once(num_samples=samples, verbose=0)
            assert prefix.call_count == p.stats.prefix_runs == 2


def test_the_reference_engine_has_no_chains():
    p = kbd.predict_with_uncertainty(
        network(),
        rows(3),
        4,
        verbose=0,
        method=kbd.Sampling(engine="reference"),
    )
    assert p.stats.chains == ()


@needs_library
def test_sequences():
    def model(length):
        return keras.Sequential(
            [
                keras.Input((length, 40)),
                layers.Dropout(0.5),
                layers.Dense(30),
            ]
        )

    x = np.ones((20, 7, 40), np.float32)
    (work,) = predict(model(7), x).stats.chains
    assert work.whole_multiply_adds == 20 * 20 * 7 * 40 * 30
    # The length is open: nothing is said of it.
    assert predict(model(None), x).stats.chains == ()


@needs_library
def test_tables_of_masks():
    model = keras.Sequential(
        [
            keras.Input((200,)),
            kbd.layers.Masksembles(4, 2.0),
            layers.Dense(100),
        ]
    )
    (work,) = predict(model, np.ones((90, 200), np.float32), 4).stats.chains
    share = work.multiply_adds / work.whole_multiply_adds
    assert work.strategy == "cut"
    assert 0.3 < share < 0.8


@needs_library
def test_files_and_ensembles_keep_the_work(tmp_path):
    p = predict(network(), rows(64))
    p.save(tmp_path / "p.npz")
    assert kbd.Predictive.load(tmp_path / "p.npz").stats == p.stats
    both = kbd.predict_with_uncertainty(
        [network(), network()], rows(64), 20, verbose=0
    )
    (work,) = p.stats.chains
    assert [
        dataclasses.replace(chain, name=chain.name.partition("/")[0])
        for chain in both.stats.chains
    ] == [dataclasses.replace(work, name=name) for name in "01"]
    assert both.stats.prefix_runs == 0


@needs_library
def test_explain_tells_how_chains_run():
    explanation = kbd.explain(network())
    ways = {
        chain.masks: (chain.work.strategy, chain.work.subtracts)
        for chain in explanation.chains
    }
    assert ways == {"shared": ("cut", True), "independent": ("masked", False)}
    text = str(explanation)
    assert "shared masks: each sample runs as a smaller network" in text
    assert "and the first step subtracts (cut; 18% of the" in text
    one = kbd.explain(network(), num_rows=1).chains
    assert [chain.work.strategy for chain in one] == ["columns", "columns"]
    assert kbd.explain(network(), engine="reference").chains == ()
    with pytest.raises(kbd.errors.BayesdropError, match="num_rows"):
        kbd.explain(network(), num_rows=0)


@needs_library
@pytest.mark.parametrize("threads", [1, 2, 8, 64])
def test_tasks_and_memory_for_any_number_of_threads(threads):
    ops = op_library.library().ops
    head = chain_work.ChainSizes(
        "float32",
        (25088, 4096, 4096, 1000),
        ("bernoulli",) * 3,
        (1 << 31,) * 3,
        (False,) * 3,
        ("relu", "relu", "softmax"),
        1,
        False,
    )
    call = chain_work.plan_call(ops, head, 256, 32, True, threads)
    assert call.threads == threads
    assert call.strategy == "cut"
    assert call.tasks >= min(2 * threads, 32)
    rounds = -(-call.tasks // threads)
    assert call.tasks >= 0.75 * rounds * threads
    assert call.task_bytes < 12 << 20
    assert call.task_bytes * threads < 300 << 20


@needs_library
def test_threads_are_those_of_the_process():
    plan = build_plan(network())
    engine, _ = choose_engine(plan, "fused")
    steps = engine.steps(plan)
    sizes = chain_work.sizes_of(plan, steps, steps[0])
    call = chain_work.plan_call(op_library.library().ops, sizes, 9, 9, True)
    assert call.threads == geometry.worker_threads()
