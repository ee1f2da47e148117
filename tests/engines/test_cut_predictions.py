# SPDX-License-Identifier: Apache-2.0
"""Predictions with cut convolutions: geometry, reasons, and changes."""

import concurrent.futures
import re

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.engines import choose_engine
from keras_bayesdrop.engines import cut
from keras_bayesdrop.engines import select
from keras_bayesdrop.graph.cache import programs
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.plan import thresholds
from keras_bayesdrop.prediction.sampling.geometry import choose_geometry
from tests.docs.pages import run_page
from tests.docs.pages import text_of
from tests.engines.both_engines import assert_close
from tests.engines.both_engines import engines_of
from tests.engines.both_engines import predict
from tests.engines.both_engines import samples
from tests.engines.cut_models import MODELS
from tests.engines.cut_models import always_cut
from tests.engines.cut_models import conv
from tests.engines.cut_models import inputs_of
from tests.engines.cut_models import moved
from tests.engines.cut_models import policy
from tests.engines.cut_models import spatial

layers = keras.layers


def vgg(rate=0.5, widths=(64, 64, 96), shape=(8, 8, 3), head=()):
    """A network that is worth cutting from a few rows on."""
    inputs = x = keras.Input(shape)
    for width in widths:
        x = spatial(rate)(conv(width)(x))
    x = layers.GlobalAveragePooling2D()(x)
    for layer in head:
        x = layer(x)
    return moved(keras.Model(inputs, layers.Dense(3, name="out")(x)))


def least_rows(model):
    plan = build_plan(model)
    engine, _ = choose_engine(plan)
    (part,) = (s for s in engine.steps(plan) if isinstance(s, CutStep))
    return part.least_rows(thresholds(part))


@pytest.fixture
def count(monkeypatch):
    """Counts how often a part is traced cut."""
    calls = []
    run_cut = cut.run_cut

    def counted(*args):
        calls.append(args)
        return run_cut(*args)

    monkeypatch.setattr(cut, "run_cut", counted)
    return calls


COMPILED = [
    "u_net",
    "residual",
    "learned",
    "open sizes",
    "transposed",
    "depthwise",
    "separable",
    "dilation",
    "one_dimension",
    "three_dimensions",
    "flat_head",
    "noise_on_joined",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*MODELS} - {*COMPILED}))
def test_all_compile(name, monkeypatch):
    """Graphs know less of shapes than tensors do."""
    always_cut(monkeypatch)
    model = moved(MODELS[name]())
    x = inputs_of(model, rows=3)
    desired = samples(model, x, "reference")
    assert_close(samples(model, x, "auto"), desired)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name, monkeypatch, count):
    always_cut(monkeypatch)
    model = moved(MODELS[name]())
    x = inputs_of(model, rows=5)
    desired = samples(model, x, "reference", 20)
    assert not count
    assert_close(samples(model, x, "auto", 20), desired)
    plan = build_plan(model)
    steps = choose_engine(plan)[0].steps(plan)
    assert len(count) == sum(isinstance(step, CutStep) for step in steps) > 0
    # Rows and samples in other pieces, and with no new trace.
    before = programs.made(model)
    assert_close(samples(model, x, "auto", 20, batch_size=2), desired)
    assert_close(samples(model, x[:4], "auto", 20), [y[:, :4] for y in desired])
    assert programs.made(model) <= before + 1  # Other blocks of counters.


def test_few_rows_run_whole_in_the_same_program(count):
    model = vgg(widths=(64, 64))
    least = least_rows(model)
    assert 1 < least < 60
    x = inputs_of(model, rows=64)
    desired = samples(model, x, "reference")
    for rows in (64, 1):
        assert_close(
            samples(model, x[:rows], "auto"), [y[:, :rows] for y in desired]
        )
    assert len(count) >= 1


@pytest.mark.parametrize("rows", [1, 7, 64, 300])
@pytest.mark.parametrize("batch_size", [None, 1, 32])
def test_memory(rows, batch_size):
    """No more at once than `batch_size` rows of the whole network take."""
    model = vgg(head=[layers.Dropout(0.5)])
    plan = build_plan(model)
    engine, _ = choose_engine(plan)
    steps = engine.steps(plan)
    (part,) = (s for s in steps if isinstance(s, CutStep))
    geometry = choose_geometry(plan, steps, batch_size, rows, 500, True)
    least = part.least_rows(thresholds(part))
    entries = batch_size or 32 * 2**20 // (8 * 8 * (64 + 96) * 4)
    cut_rows = min(rows, geometry.tile_rows)
    if rows >= least:
        assert geometry.tile_rows * 2 <= max(entries, 2)
        assert geometry.samples * 96 * 2 * cut_rows <= entries * 8 * 8 * 160
        # What is left of the rows may run whole.
        assert geometry.samples * (np.ceil(least) - 1) <= max(
            entries, 2 * least
        )
    else:
        assert geometry.samples * cut_rows <= max(entries, 16)
    if rows == 64 and batch_size is None:
        assert geometry.samples >= 16


def test_explanation_and_stats():
    model = vgg()
    told = engines_of(model)
    assert told["conv2d" if "conv2d" in told else next(iter(told))]
    work = [
        re.fullmatch(
            r"cut to (\d+) of (\d+) multiply-adds( from \d+ rows on)?", why
        )
        for engine, why in told.values()
        if engine == "cut" and "multiply-adds" in why
    ]
    assert len(work) == 3 and all(work)
    for match, whole in zip(
        work, (64 * 9 * 64 * 64, 64 * 9 * 64 * 96, 96 * 3), strict=True
    ):
        assert int(match[2]) == whole
        assert int(match[1]) < (0.45 if match is not work[2] else 0.6) * whole
    (p,) = predict(model, inputs_of(model, 40), "auto")
    engines = {step.name: (step.engine, step.reason) for step in p.stats.engine}
    assert engines == told
    for method in ("reference", "independent"):
        kwargs = {"masks": method} if method == "independent" else {}
        engine = "auto" if kwargs else method
        (p,) = predict(model, inputs_of(model, 40), engine, **kwargs)
        used = {step.engine for step in p.stats.engine}
        assert used - {"noise"} == {"reference"}


def test_page():
    plan = run_page("engines.md")["plan"]
    step = plan.steps[2]
    assert step.engine == "cut"
    assert step.reason.startswith("cut to 3594816 of 9437184")
    assert "cut to 3594816 of 9437184" in text_of("engines.md")


def test_small_networks_are_not_cut():
    told = engines_of(vgg(widths=(24, 24), shape=(3, 3, 3)))
    used = {engine for engine, _ in told.values()}
    assert used - {"noise"} == {"reference"}


def test_mixed_precision_is_not_cut():
    with policy("mixed_float16"):
        model = vgg()
    told = engines_of(model)
    assert {engine for engine, _ in told.values()} == {"reference"}
    assert any("float16" in why for _, why in told.values())


def test_groups_are_told():
    inputs = x = keras.Input((8, 8, 3))
    x = spatial()(conv(64)(x))
    x = spatial()(conv(64, groups=4, name="grouped")(x))
    x = spatial()(conv(64)(x))
    model = moved(keras.Model(inputs, conv(64)(x)))
    engine, why = engines_of(model)["grouped"]
    assert engine == "reference" and "whole channels: 4 groups" in why


@pytest.mark.filterwarnings("ignore:Layer 'conv1d")
def test_masked_sequences_run_whole(monkeypatch, count):
    """Keras masks go on to layers behind, which take them into account."""
    always_cut(monkeypatch)
    inputs = x = keras.Input((7,), dtype="int32")
    x = layers.Embedding(9, 20, mask_zero=True)(x)
    x = layers.SpatialDropout1D(0.5)(x)
    x = layers.Conv1D(20, 2, padding="same")(x)
    x = layers.SpatialDropout1D(0.5)(x)
    model = moved(keras.Model(inputs, layers.GlobalAveragePooling1D()(x)))
    x = np.random.default_rng(0).integers(0, 9, (5, 7))
    desired = samples(model, x, "reference")
    assert_close(samples(model, x, "auto"), desired)
    assert not count


def test_dense_head_in_the_op():
    """A chain of dense layers with noise is left to the op library."""
    model = vgg(head=[layers.Dense(20, "relu", name="a"), layers.Dropout(0.5)])
    x = inputs_of(model, 40)
    assert_close(samples(model, x, "auto"), samples(model, x, "reference"))


def test_without_the_op_library(monkeypatch):
    monkeypatch.setattr(
        select, "why_no_fused_engine", lambda prefer="auto": "no library"
    )
    model = vgg(head=[layers.Dense(20, "relu", name="a"), layers.Dropout(0.5)])
    told = engines_of(model)
    assert {engine for engine, _ in told.values()} == {"reference", "cut"}
    assert told["out"] == ("reference", "no library")
    with pytest.raises(kbd.errors.EngineUnavailableError, match="no library"):
        kbd.explain(model, engine="fused")
    x = inputs_of(model, 40)
    assert_close(samples(model, x, "auto"), samples(model, x, "reference"))


def test_gpus_do_not_cut(monkeypatch):
    monkeypatch.setattr(select, "_has_gpu", lambda: True)
    told = engines_of(vgg())
    assert {engine for engine, _ in told.values()} == {"reference"}


def test_new_weights_and_learned_rates(monkeypatch):
    always_cut(monkeypatch)
    model = moved(MODELS["learned"]())
    x = inputs_of(model)
    before = samples(model, x, "auto")
    made = programs.made(model)
    for weight in model.weights:
        weight.assign(weight + 0.3)
    after = samples(model, x, "auto")
    assert programs.made(model) == made
    assert np.abs(after[0] - before[0]).max() > 0.01
    assert_close(after, samples(model, x, "reference"))


def test_saved_and_loaded(tmp_path):
    model = vgg()
    x = inputs_of(model, 40)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        samples(loaded, x, "auto"), samples(model, x, "auto")
    )


def test_threads():
    model = vgg()
    x = inputs_of(model, 40)
    desired = samples(model, x, "auto")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: samples(model, x, "auto"), range(8)))
    for actual in runs:
        np.testing.assert_array_equal(actual, desired)


def test_one_function_of_a_thompson_sampler(monkeypatch):
    always_cut(monkeypatch)
    model = vgg()
    x = inputs_of(model, 5)
    functions = [
        kbd.decisions.ThompsonSampler(
            model, method=kbd.Sampling(engine=engine), seed=3
        ).sample()
        for engine in ("auto", "reference")
    ]
    one, other = (np.asarray(function(x)) for function in functions)
    assert_close([one], [other])
