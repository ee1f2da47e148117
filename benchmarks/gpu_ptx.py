# SPDX-License-Identifier: Apache-2.0
"""Checks that the PTX of the GPU kernels has what it is meant to have.

    python benchmarks/gpu_ptx.py                   # sm_80
    python benchmarks/gpu_ptx.py --architecture 90

Tensor-core instructions where numbers are multiplied by them, asynchronous
copies from sm_80 on, loads and copies of 16 bytes. Needs `nvcc`, and no GPU.
"""

import argparse
import pathlib
import re
import sys
import tempfile

import gpu_code
from gpu_code import Kernel

# What is counted, by name.
PATTERNS = {
    "mma": r"\bmma\.sync",
    "ldmatrix": r"\bldmatrix\.sync",
    "async copies of 16 bytes": r"\bcp\.async\.cg\.shared\.global \[[^;]*, 16,",
    "async copies of 4 bytes": r"\bcp\.async\.ca\.shared\.global \[[^;]*, 4,",
    "global loads of 16 bytes": r"\bld\.global(?:\.nc)?(?:\.\w+)*\.v4\.\w*32",
    "global stores of 16 bytes": r"\bst\.global(?:\.\w+)*\.v4\.\w*32",
    "shared loads of 16 bytes": r"\bld\.shared(?:\.\w+)*\.v4\.\w*32",
    "fused multiply-adds": r"\bfma\.rn\.f32",
    "local memory": r"\b(?:ld|st)\.local",
}
MMA_OF = {
    "TF32": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "float16": "m16n8k16.row.col.f32.f16.f16.f32",
    "bfloat16": "m16n8k16.row.col.f32.bf16.bf16.f32",
}


def count(body: str) -> dict[str, int]:
    """Counts the instructions that matter in the PTX of a kernel."""
    return {
        name: len(re.findall(pattern, body))
        for name, pattern in PATTERNS.items()
    }


def problems(kernel: Kernel, architecture: int, body: str) -> list[str]:
    """Returns what is missing in a kernel, or there and should not be."""
    found = count(body)
    wrong = []

    def expect(name: str, wanted: bool) -> None:
        if bool(found[name]) != wanted:
            wrong.append(
                f"{kernel} on sm_{architecture}: expected "
                f"{'some' if wanted else 'no'} {name}, found {found[name]}"
            )

    expect("local memory", False)
    if not kernel.is_product:
        return wrong
    asynchronous = architecture >= 80
    has_mma = kernel.wants_tensor_cores and (
        asynchronous or kernel.number == "float16"
    )
    expect("mma", has_mma)
    if kernel.wants_tensor_cores and asynchronous:
        numbers = "TF32" if kernel.math == gpu_code.TF32 else kernel.number
        kinds = set(re.findall(r"\bmma\.sync\.aligned\.(\S+)", body))
        if kinds != {MMA_OF[numbers]}:
            wrong.append(f"{kernel}: expected {MMA_OF[numbers]}, found {kinds}")
    expect("ldmatrix", has_mma)
    # The kernel's rows and columns; and of activations, if no noise is made.
    expect("async copies of 16 bytes", asynchronous)
    # What is gathered comes by single numbers: 4 bytes, or 2 through registers.
    expect(
        "async copies of 4 bytes", asynchronous and kernel.number == "float32"
    )
    # Noise is made in registers, so its A is loaded; before sm_80 all is.
    expect(
        "global loads of 16 bytes",
        kernel.kind == "masked" or not asynchronous,
    )
    # In 16 bits, four numbers are 8 bytes; but logits are float32.
    expect("global stores of 16 bytes", True)
    expect("shared loads of 16 bytes", True)
    return wrong


def compile_and_split(
    nvcc: str, architecture: int, folder: pathlib.Path
) -> dict[Kernel, str]:
    """Returns the PTX of all kernels."""
    bodies: dict[Kernel, str] = {}
    for path in gpu_code.compile_ptx(nvcc, architecture, folder):
        bodies.update(gpu_code.split_ptx(path.read_text("utf-8")))
    return bodies


def main() -> int:
    """Prints the counts of every kernel, then what is wrong."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--architecture",
        type=int,
        choices=gpu_code.ARCHITECTURES,
        default=80,
    )
    architecture = options.parse_args().architecture
    nvcc = gpu_code.find_nvcc()
    if nvcc is None:
        print("Expected nvcc in the path. Received: none", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        bodies = compile_and_split(nvcc, architecture, pathlib.Path(folder))
    wrong = []
    for kernel in sorted(bodies):
        found = {name: n for name, n in count(bodies[kernel]).items() if n}
        print(
            f"{kernel}: "
            + ", ".join(f"{n} {name}" for name, n in found.items())
        )
        wrong += problems(kernel, architecture, bodies[kernel])
    print("\n".join(wrong) or "as meant")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
