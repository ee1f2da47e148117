# SPDX-License-Identifier: Apache-2.0
"""What the compiler makes of the GPU kernels, and what is said about it.

The kernels are compiled for sm_80 alone; `benchmarks/gpu_resources.py` does all
architectures. No GPU is needed. What these tests say of speed is nothing.
"""

import json
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from keras_bayesdrop._core import op_library
from tests.benchmarks.benchmark_scripts import BENCHMARKS
from tests.benchmarks.benchmark_scripts import script

ARCHITECTURE = 80

gpu_code = script("gpu_code")
gpu_ptx = script("gpu_ptx")
gpu_resources = script("gpu_resources")
gpu_roofline = script("gpu_roofline")
Kernel = gpu_code.Kernel

needs_nvcc = pytest.mark.skipif(
    gpu_code.find_nvcc() is None, reason="no nvcc in the path"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gpu_code")


@pytest.fixture(scope="module")
def ptx(folder):
    """The PTX of all kernels, a file per source."""
    return gpu_code.compile_ptx(gpu_code.find_nvcc(), ARCHITECTURE, folder)


# Instructions.


@needs_nvcc
def test_the_ptx_is_as_meant(ptx):
    bodies = {}
    for path in ptx:
        bodies.update(gpu_code.split_ptx(path.read_text("utf-8")))
    assert {kernel.kind for kernel in bodies} == {
        "compact",
        "gathered",
        "masked",
        "softmax",
    }
    wrong = [
        line
        for kernel, body in bodies.items()
        for line in gpu_ptx.problems(kernel, ARCHITECTURE, body)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_missing_in_ptx_is_found():
    kernel = Kernel("gathered", "float32", gpu_code.TF32, "64x64")
    complete = """
        mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1};
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1};
        cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;
        cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;
        st.global.v4.f32 [%rd1], {%f1};
        ld.shared.v4.f32 {%f1}, [%r1];
    """
    assert gpu_ptx.problems(kernel, 80, complete) == []
    for line in filter(None, map(str.strip, complete.splitlines())):
        assert gpu_ptx.problems(kernel, 80, complete.replace(line, ""))
    assert gpu_ptx.problems(kernel, 80, complete.replace("tf32", "bf16"))
    assert gpu_ptx.problems(kernel, 80, complete + "st.local.u32 [%rd2], %r1;")


@needs_nvcc
@pytest.mark.skipif(
    bool(op_library.library().problem), reason=op_library.library().problem
)
def test_the_library_has_code_for_all_architectures():
    """And loads, though there is no driver."""
    built = op_library.library().gpu_code
    assert built == tuple(f"sm_{each}" for each in gpu_code.ARCHITECTURES)


# Registers.

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN3kbd14compact_kernelENS_13CompactParamsE' for 'sm_80'
ptxas info    : Function properties for _ZN3kbd14compact_kernelENS_13CompactParamsE
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem, 1000 bytes cmem[0]
"""  # noqa: E501


def test_the_output_of_ptxas_is_read():
    try:
        found = gpu_code.parse_usage(LOG)
    except RuntimeError as error:
        pytest.skip(str(error))
    usage = gpu_code.Usage(40, 8, 4, 12, 64, 1)
    assert found == {Kernel("compact"): usage}


def test_names_are_read():
    traits = "kbd::Traits<float, (kbd::Math)1, 128, 64, 2, 4, 3>"
    params = "kbd::GemmParams<float>"
    kernel = gpu_code.parse_name(
        f"void kbd::gemm_kernel<{traits}, true>({params})"
    )
    assert kernel == Kernel("masked", "float32", gpu_code.TF32, "128x64")
    assert str(kernel) == "masked TF32 128x64"
    kernel = gpu_code.parse_name(
        "void kbd::softmax_kernel<kbd::Half>(kbd::SoftmaxParams<kbd::Half>)"
    )
    assert str(kernel) == "softmax float16"


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks"),
    [
        (80, 256, 128, 0, 2),  # 65536 / (256 * 128)
        (80, 256, 129, 0, 1),  # 136 of a thread, by units of 256 of a warp
        (80, 128, 32, 0, 16),  # 64 warps
        (86, 128, 32, 0, 12),  # 48 warps
        (75, 64, 32, 0, 16),  # blocks
        (80, 256, 32, 81 << 10, 2),  # 82 KB each, with the reserved one
        (80, 256, 32, (81 << 10) + 1, 1),
        (75, 256, 32, 32 << 10, 2),
        (86, 256, 32, 100 << 10, 0),  # more than a block may have
    ],
)
def test_occupancy(architecture, threads, registers, shared, blocks):
    limits = gpu_resources.LIMITS[architecture]
    found = gpu_resources.resident_blocks(limits, threads, registers, shared)
    assert found == blocks


@needs_nvcc
def test_resources_are_those_of_the_results(ptx, folder):
    """As committed, if by the same compiler; and no product spills."""
    nvcc = gpu_code.find_nvcc()
    usage = gpu_code.assemble(nvcc, ARCHITECTURE, ptx)
    launches = gpu_code.launches(nvcc, folder)
    assert usage.keys() == launches.keys()
    for kernel, each in usage.items():
        assert (each.spill_stores, each.spill_loads) == (0, 0), str(kernel)
    results = json.loads(gpu_resources.RESULTS.read_text("utf-8"))
    if results["nvcc"] != gpu_code.nvcc_version(nvcc):
        return
    for kernel, each in usage.items():
        found = gpu_resources.describe(
            kernel, ARCHITECTURE, each, launches[kernel]
        )
        committed = results["kernels"][str(kernel)][str(ARCHITECTURE)]
        assert found == committed, (
            f"{kernel}: run python benchmarks/gpu_resources.py"
        )


def test_results_have_no_spills():
    results = json.loads(gpu_resources.RESULTS.read_text("utf-8"))
    assert results["architectures"] == list(gpu_code.ARCHITECTURES)
    for name, found in results["kernels"].items():
        for architecture, each in found.items():
            if each["used"]:
                where = f"{name} on sm_{architecture}"
                spilled = (each["spill_stores"], each["spill_loads"])
                assert spilled == (0, 0), where
                assert each["blocks"] > 0, where


# The page.


@pytest.mark.parametrize("name", ["gpu_resources", "gpu_roofline"])
def test_tables_are_those_of_the_results(name):
    path = BENCHMARKS / f"{name}.py"
    done = subprocess.run([sys.executable, str(path), "--check"], check=False)
    assert done.returncode == 0, f"Run: python benchmarks/{name}.py"


# Arithmetic on paper.


def test_tensorflow_is_counted_as_by_hand():
    """Two rows, three samples: 6 vectors of 4, then 8, then 2 numbers."""
    work = gpu_roofline.tensorflow_chain((4, 8, 2), 2, 3, fused=False)
    assert [(each.name, each.bytes) for each in work] == [
        ("repeat", 4 * (2 * 4 + 6 * 4)),
        ("scale", 4 * 2 * 24),
        ("random uniform", 4 * 24),
        ("compare", 4 * 24 + 24),
        ("select", 24 + 4 * 2 * 24),
        ("matmul", 4 * (24 + 32 + 48)),
        ("bias", 4 * (48 + 8 + 48)),
        ("relu", 4 * 2 * 48),
        ("scale", 4 * 2 * 48),
        ("random uniform", 4 * 48),
        ("compare", 4 * 48 + 48),
        ("select", 48 + 4 * 2 * 48),
        ("matmul", 4 * (48 + 16 + 12)),
        ("bias", 4 * (12 + 2 + 12)),
        ("softmax", 4 * 2 * 12),
    ]
    assert sum(each.flops for each in work) == 2 * 6 * (4 * 8 + 8 * 2)
    fused = gpu_roofline.tensorflow_chain((4, 8, 2), 2, 3, fused=True)
    assert fused == [w for w in work if w.name not in ("bias", "relu")]


def cut_step(tile, **changes):
    return {
        "tile": tile,
        "cuts_rows": True,
        "cuts_columns": False,
        "gathers": False,
        "makes_noise": False,
        "samples_apart": True,
        **changes,
    }


def test_shared_masks_are_counted_as_by_hand():
    """32-64-8 at rate one half, 20 rows, 3 samples, tiles of 16 x 32."""
    plan = [
        {
            "samples": 3,
            "steps": [
                cut_step([16, 32], cuts_columns=True, gathers=True),
                cut_step([16, 32]),
            ],
        }
    ]
    work = gpu_roofline.op_chain((32, 64, 8), (0.5, 0.5), 20, plan)
    lists, first, second, softmax = work
    assert lists.bytes == 4 * 3 * (16 + 32)
    assert lists.integers == 20 * 3 * (32 + 64)
    # 2 x 1 tiles a sample, 16 deep; half the rows and half the columns of W.
    assert first.blocks == 3 * 2
    assert first.flops == 2 * (3 * 2) * (16 * 32) * 16
    assert first.bytes == 4 * (20 * 32 + 32 * 64 + 3 * 20 * 32)
    # Of eight numbers, half wanted, all are read but for 1 time in 256.
    spread = 2 * 255 / 256
    assert first.staged == 4 * 6 * 16 * (16 * spread + 32 * spread)
    assert first.integers == 0
    # 32 deep; 8 columns in a tile of 32.
    assert second.flops == 2 * (3 * 2) * (16 * 32) * 32
    assert second.bytes == 4 * (3 * 20 * 32 + 64 * 8 + 3 * 20 * 8)
    assert second.staged == 4 * 6 * 32 * (16 + 32)
    assert softmax.bytes == 4 * 2 * 3 * 20 * 8


def test_independent_masks_are_counted_as_by_hand():
    """Noise is made anew for each of two tiles of columns."""
    step = cut_step(
        [64, 32], cuts_rows=False, makes_noise=True, samples_apart=False
    )
    plan = [{"samples": 3, "steps": [step]}]
    product, _ = gpu_roofline.op_chain((32, 64), (0.5,), 20, plan)
    assert product.blocks == 1 * 2
    assert product.flops == 2 * 2 * (64 * 32) * 32
    assert product.bytes == 4 * (20 * 32 + 32 * 64 + 3 * 20 * 64)
    assert product.integers == 20 * (3 * 20 * 32) * 2


def test_a_kernel_takes_the_longest_of_its_parts():
    device = gpu_roofline.Device("", 80, 2, 10.0, 80.0, 0.5, 4.0, 8.0, 1.0)
    work = gpu_roofline.Work("", 100, 20, 16, 256, 3, ours=True)
    # 3 blocks take two turns of 2 multiprocessors: 4 / 3 of the time.
    assert work.seconds(device, False, True) == pytest.approx(100 / 10 * 4 / 3)
    # 100 / (80 / 2) * 4 / 3 = 3.3 and 16 / 8 = 2 are less than 20 / 4.
    assert work.seconds(device, True, True) == 5.0
    # 256 instructions at 64 * 2 a second.
    assert work.seconds(device, True, False) == 7.0


def test_tensorflow_launches_what_is_counted():
    """The ops that a graph of Keras' Dropout and Dense is left with."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(8, activation="relu"),
        ]
    )
    function = tf.function(
        lambda x: model(tf.repeat(x, 3, axis=0), training=True)
    )
    graph = function.get_concrete_function(tf.TensorSpec([2, 4])).graph
    kinds = {node.op for node in graph.as_graph_def().node}
    for each in graph.as_graph_def().library.function:
        kinds |= {node.op for node in each.node_def}
    assert {
        "Tile",
        "Mul",
        "StatelessRandomUniformV2",
        "GreaterEqual",
        "SelectV2",
        "MatMul",
        "Relu",
    } <= kinds
    assert kinds & {"AddV2", "BiasAdd"}
