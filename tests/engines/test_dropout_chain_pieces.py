# SPDX-License-Identifier: Apache-2.0
"""The compiled op gives the same bits in pieces, threads and processes."""

import concurrent.futures
import dataclasses
import os
import pickle
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.plan.layer_forms import ACTIVATIONS
from tests.engines.chain_cases import CHAINS
from tests.engines.chain_cases import MASKS
from tests.engines.chain_cases import Block
from tests.engines.chain_cases import arguments
from tests.engines.chain_cases import assert_same_bits
from tests.engines.chain_cases import assert_within_bound
from tests.engines.chain_cases import exact
from tests.engines.chain_cases import identity
from tests.engines.chain_cases import inputs
from tests.engines.chain_cases import network
from tests.engines.chain_cases import reference
from tests.engines.chain_cases import run

problem = op_library.library().problem
pytestmark = pytest.mark.skipif(bool(problem), reason=problem)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("kind", CHAINS)
def test_rows_and_samples_in_pieces(kind, masks, dtype):
    """Sizes around those at which the op splits its work."""
    widths, rates = CHAINS[kind]
    layers = network(
        widths, rates, ("selu", "tanh", "softmax")[: len(rates)], dtype=dtype
    )
    rows = 300 if kind != "wide" else 90
    x = inputs(rows, widths[0], dtype=dtype)
    whole = run(x, layers, Block(9, 5, 40, 1000, masks))
    for begin, end in ((0, 1), (7, 8), (1, 5), (80, 85), (3, 90), (17, rows)):
        for first, count in ((5, 40), (5, 1), (20, 2), (30, 15)):
            part = run(
                x[begin:end],
                layers,
                Block(9, first, count, 1000 + begin, masks),
            )
            assert_same_bits(
                part, whole[first - 5 : first - 5 + count, begin:end]
            )


def test_one_row_and_many_samples_in_pieces():
    layers = network((59, 97, 3), [0.2, 0.5])
    x = inputs(1, 59)
    for masks in MASKS:
        whole = run(x, layers, Block(1, 0, 1000, 3, masks))
        for first, count in ((0, 1), (1, 500), (999, 1), (511, 2)):
            part = run(x, layers, Block(1, first, count, 3, masks))
            assert_same_bits(part, whole[first : first + count])


@pytest.mark.parametrize("per_entry", [False, True])
@pytest.mark.parametrize("masks", MASKS)
def test_entries_in_pieces(masks, per_entry):
    layers = network((13, 31, 3), [0.2, 0.5], per_entry=per_entry)
    x = inputs(40, 7, 13)
    whole = run(x, layers, Block(1, 2, 20, 5, masks))
    for begin, end in ((0, 1), (3, 4), (1, 38)):
        for first, count in ((2, 1), (9, 13)):
            part = run(
                x[begin:end], layers, Block(1, first, count, 5 + begin, masks)
            )
            assert_same_bits(
                part, whole[first - 2 : first - 2 + count, begin:end]
            )


@pytest.mark.parametrize("masks", MASKS)
def test_samples_of_their_own_in_pieces(masks):
    layers = network((13, 31, 3), [0.2, 0.5])
    x = inputs(20, 40, 13)
    whole = run(x, layers, Block(1, 2, 20, 5, masks, True))
    for begin, end in ((0, 1), (3, 4), (1, 38)):
        for first, count in ((2, 1), (9, 13)):
            part = run(
                x[first - 2 : first - 2 + count, begin:end],
                layers,
                Block(1, first, count, 5 + begin, masks, True),
            )
            assert_same_bits(
                part, whole[first - 2 : first - 2 + count, begin:end]
            )


def test_the_same_call_twice():
    layers = network((300, 260, 10), [0.2, 0.5])
    x = inputs(200, 300)
    for masks in MASKS:
        block = Block(1, 0, 30, 0, masks)
        assert_same_bits(run(x, layers, block), run(x, layers, block))


# Results in other processes.


# Loads the op library alone, which is much quicker than the package.
PROGRAM = """
import pickle
import sys
import tensorflow as tf
library, calls_file, results_file = sys.argv[1:]
ops = tf.load_op_library(library)
def tensors(value):
    if isinstance(value, list) and value and not hasattr(value[0], "dtype"):
        return value
    return tf.nest.map_structure(tf.constant, value)
with open(calls_file, "rb") as file:
    calls = pickle.load(file)
results = {
    name: ops.keras_bayesdrop_dropout_chain(
        **{key: value if isinstance(value, (str, bool)) else tensors(value)
           for key, value in call.items()}).numpy()
    for name, call in calls.items()}
results["isa"] = ops.keras_bayesdrop_build().numpy().decode()
with open(results_file, "wb") as file:
    pickle.dump(results, file)
"""


def process_cases():
    """Returns x, layers and block, by names."""
    calls = {}
    for masks in MASKS:
        block = Block(5, 9, 40, 4, masks)
        for width in (5, 97):
            layers = [identity(width, noise=Bernoulli(0.4))]
            ones = np.ones((9, width), "float32")
            calls[f"{masks} masks {width}"] = ones, layers, block
        for kind in ("dropped a little", "dropped by half", "mixed", "wide"):
            widths, rates = CHAINS[kind]
            activations = ("selu", "gelu", "softmax")[: len(rates)]
            layers = network(widths, rates, activations)
            x = inputs(130, widths[0])
            calls[f"{masks} chain {kind}"] = x, layers, block
    return calls


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Results of processes of one thread, by the name of the instruction set.

    A set that the machine does not have is replaced by one that it has.
    """
    folder = tmp_path_factory.mktemp("processes")
    calls = {
        name: tf.nest.map_structure(
            lambda leaf: leaf.numpy() if tf.is_tensor(leaf) else leaf,
            arguments(*case),
        )
        for name, case in process_cases().items()
    }
    calls_file = folder / "calls"
    calls_file.write_bytes(pickle.dumps(calls))

    def results_in(isa):
        results_file = folder / isa
        library = op_library.library().path
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                PROGRAM,
                library,
                str(calls_file),
                str(results_file),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env={
                **os.environ,
                "KBD_ISA": isa,
                "TF_NUM_INTRAOP_THREADS": "1",
            },
        )
        assert done.returncode == 0, done.stderr
        return pickle.loads(results_file.read_bytes())

    names = sorted({"portable", "avx2", own_isa()})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(results_in, names), strict=True))


def own_isa():
    return op_library.library().instruction_set()[0]


def test_threads_do_not_matter(processes):
    """One thread there; here as many as `conftest.py` asks for, two."""
    there = processes[own_isa()]
    assert there["isa"].startswith(f"isa={own_isa()};")
    for name, case in process_cases().items():
        assert_same_bits(run(*case), there[name])


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_instruction_sets(processes, isa):
    """Same masks; results of each as exact as its arithmetic allows."""
    there = processes[isa]
    if isa == "portable":
        assert there["isa"].startswith("isa=portable;")
    for name, case in process_cases().items():
        if "masks" in name.split():
            np.testing.assert_array_equal(run(*case), there[name])
        else:
            assert_within_bound(there[name], *case)


# Any chain.


@st.composite
def chains(draw):
    """Draws x, layers and a block, small enough to be exact about."""
    depth = draw(st.integers(1, 5), "depth")
    width = st.integers(1, 40)
    widths = draw(
        st.lists(width, min_size=depth + 1, max_size=depth + 1), "widths"
    )
    rate = st.none() | st.sampled_from(
        [0.0, 0.05, 0.25, 0.26, 0.5, 0.9, 1.0, -0.1, -0.5]
    )
    rates = draw(st.lists(rate, min_size=depth, max_size=depth), "rates")
    if draw(st.booleans(), "one rate next to 1"):
        # One only: its scale of 2^24 to the fifth would be too large.
        rates[draw(st.integers(0, depth - 1))] = 1 - 2**-24
    activations = draw(
        st.lists(st.sampled_from(ACTIVATIONS), min_size=depth, max_size=depth),
        "activations",
    )
    entries = draw(st.sampled_from([None, None, 1, 3, 5]), "entries")
    dtype = draw(st.sampled_from(["float32", "float64"]))
    layers = network(
        widths,
        rates,
        activations,
        dtype=dtype,
        seed=draw(st.integers(0, 3), "weights"),
    )
    layers = [
        dataclasses.replace(
            layer,
            bias=layer.bias if draw(st.booleans(), "bias") else None,
            site=draw(st.integers(0, 9), "site"),
            per_entry=entries is not None and draw(st.booleans(), "per_entry"),
        )
        for layer in layers
    ]
    block = Block(
        draw(st.integers(0, 2**64 - 1), "seed"),
        draw(st.integers(0, 40) | st.integers(0, 2**40), "first sample"),
        draw(st.integers(1, 40), "samples"),
        draw(st.integers(0, 40) | st.integers(0, 2**40), "first row"),
        draw(st.sampled_from(MASKS), "masks"),
        draw(st.booleans(), "x per sample"),
    )
    rows = draw(st.integers(1, 30), "rows")
    shape = [rows, *([] if entries is None else [entries]), widths[0]]
    if block.x_per_sample:
        shape = [block.num_samples, *shape]
    return inputs(*shape, dtype=dtype), layers, block


@hypothesis.settings(max_examples=120)
@hypothesis.given(chain=chains(), data=st.data())
def test_any_chain_in_any_pieces(chain, data):
    x, layers, block = chain
    whole = run(x, layers, block)
    assert_within_bound(whole, x, layers, block)
    first = data.draw(st.integers(0, block.num_samples - 1), "first")
    count = data.draw(st.integers(1, block.num_samples - first), "count")
    lead = 1 if block.x_per_sample else 0
    begin = data.draw(st.integers(0, x.shape[lead] - 1), "begin")
    end = data.draw(st.integers(begin + 1, x.shape[lead]), "end")
    part = x[first : first + count, begin:end] if lead else x[begin:end]
    there = dataclasses.replace(
        block,
        first_sample=block.first_sample + first,
        num_samples=count,
        first_row=block.first_row + begin,
    )
    assert_same_bits(
        run(part, layers, there), whole[first : first + count, begin:end]
    )


@hypothesis.settings(max_examples=40)
@hypothesis.given(chain=chains())
def test_any_chain_is_that_of_the_reference(chain):
    x, layers, block = chain
    # TensorFlow has their constants in float32, for float64 as well.
    rough = {"gelu", "leaky_relu"} & {layer.activation for layer in layers}
    hypothesis.assume(x.dtype == np.float32 or not rough)
    _, error = exact(x, layers, block)
    miss = np.abs(run(x, layers, block) - reference(x, layers, block))
    assert np.all(miss <= 2 * error)
