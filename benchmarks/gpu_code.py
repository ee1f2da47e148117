# SPDX-License-Identifier: Apache-2.0
"""The GPU kernels as the compiler sees them: PTX, registers, launches.

Needs `nvcc`, and no GPU. What the scripts `gpu_resources.py` and `gpu_ptx.py`
share.
"""

import concurrent.futures
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
# Two compilers at a time: each takes up to a gigabyte.
WORKERS = 2

NUMBERS = {"float": "float32", "Half": "float16", "Bfloat16": "bfloat16"}
# As in `kbd::Math`.
FMA, TF32, MMA = range(3)


@dataclasses.dataclass(frozen=True, order=True)
class Kernel:
    """Which kernel: what it does, on which numbers, on which tile."""

    kind: str  # gathered, masked (products), compact, softmax
    number: str = ""
    math: int = -1
    tile: str = ""

    def __str__(self) -> str:
        """Returns a short name for people."""
        numbers = "TF32" if self.math == TF32 else self.number
        return " ".join(filter(None, (self.kind, numbers, self.tile)))

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product."""
        return self.kind in ("gathered", "masked")

    @property
    def wants_tensor_cores(self) -> bool:
        """Whether it is meant to multiply by `mma`."""
        return self.math in (TF32, MMA)

    def is_used(self, architecture: int) -> bool:
        """Whether the launcher ever starts it on an architecture."""
        return self.math != TF32 or architecture >= 80


@dataclasses.dataclass(frozen=True)
class Usage:
    """What `ptxas -v` says of a kernel, in registers and bytes."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    static_shared: int
    barriers: int


@dataclasses.dataclass(frozen=True)
class Launch:
    """Threads and bytes of dynamic shared memory of a block."""

    threads: int
    dynamic_shared: int


def find_nvcc() -> str | None:
    """Returns the path of `nvcc`, or `None`."""
    return shutil.which("nvcc")


def nvcc_version(nvcc: str) -> str:
    """Returns the release of `nvcc`, e.g. `"13.0"`."""
    found = re.search(r"release (\d+\.\d+)", _run([nvcc, "--version"]))
    return found.group(1) if found else "unknown"


def sources() -> list[pathlib.Path]:
    """Returns the files of `kernels/cuda` that `nvcc` compiles."""
    return sorted((KERNELS / "cuda").glob("*.cu"))


def compile_ptx(
    nvcc: str, architecture: int, folder: pathlib.Path
) -> list[pathlib.Path]:
    """Compiles all kernels to PTX, one file per source."""

    def one(source: pathlib.Path) -> pathlib.Path:
        made = folder / f"{source.stem}.sm_{architecture}.ptx"
        _run(
            [
                nvcc,
                "-ptx",
                "-std=c++17",
                "-O3",
                f"-arch=sm_{architecture}",
                f"-I{KERNELS}",
                f"-I{KERNELS / 'include'}",
                str(source),
                "-o",
                str(made),
            ]
        )
        return made

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(one, sources()))


def assemble(
    nvcc: str, architecture: int, ptx: Sequence[pathlib.Path]
) -> dict[Kernel, Usage]:
    """Assembles PTX for its architecture and returns what `ptxas` says."""

    def one(path: pathlib.Path) -> str:
        made = path.with_suffix(".cubin")
        arch = f"-arch=sm_{architecture}"
        return _run(
            [nvcc, "-cubin", arch, "-Xptxas", "-v", str(path), "-o", str(made)]
        )

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        logs = list(pool.map(one, ptx))
    found: dict[Kernel, Usage] = {}
    for log in logs:
        found.update(parse_usage(log))
    return found


def parse_usage(log: str) -> dict[Kernel, Usage]:
    """Reads the output of `ptxas -v`."""
    parts = re.split(r"Compiling entry function '(\w+)' for '\w+'", log)
    names, texts = parts[1::2], parts[2::2]
    kernels = identify(names)

    def number(pattern: str, text: str) -> int:
        match = re.search(pattern, text)
        return int(match.group(1)) if match else 0

    found = {}
    for name, text in zip(names, texts, strict=True):
        if "registers" not in text:
            raise ValueError(
                "Cannot read the output of ptxas. Expected the registers of "
                f"{name}. Received: {text}"
            )
        found[kernels[name]] = Usage(
            registers=number(r"Used (\d+) registers", text),
            stack=number(r"(\d+) bytes stack frame", text),
            spill_stores=number(r"(\d+) bytes spill stores", text),
            spill_loads=number(r"(\d+) bytes spill loads", text),
            static_shared=number(r"(\d+)(?:\+\d+)? bytes smem", text),
            barriers=number(r"used (\d+) barriers", text),
        )
    return found


def split_ptx(text: str) -> dict[Kernel, str]:
    """Returns the PTX of every kernel in a file."""
    bodies = {
        match.group(1): match.group(2)
        for match in re.finditer(
            r"\.entry (\w+)\s*\((.*?)(?=^\.visible|^\.weak|\Z)",
            text,
            re.DOTALL | re.MULTILINE,
        )
    }
    kernels = identify(list(bodies))
    return {kernels[name]: body for name, body in bodies.items()}


def identify(names: Sequence[str]) -> dict[str, Kernel]:
    """Says which kernels mangled names stand for."""
    if not names:
        return {}
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    if tool is None:
        raise RuntimeError(
            "Cannot read the names of kernels. Expected `c++filt` (of "
            "binutils) in the path. Received: none"
        )
    plain = _run([tool, *names]).splitlines()
    return {
        name: parse_name(text) for name, text in zip(names, plain, strict=True)
    }


def parse_name(name: str) -> Kernel:
    """Reads the demangled name of a kernel."""
    name = name.replace("kbd::", "")
    match = re.search(
        r"gemm_kernel<Traits<(\w+), \(Math\)(\d+), (\d+), (\d+)[^>]*>, "
        r"(?:\(bool\))?(\w+)>",
        name,
    )
    if match:
        number, math, rows, columns, noisy = match.groups()
        kind = "masked" if noisy in ("true", "1") else "gathered"
        return Kernel(kind, NUMBERS[number], int(math), f"{rows}x{columns}")
    match = re.search(r"softmax_kernel<(\w+)>", name)
    if match:
        return Kernel("softmax", NUMBERS[match.group(1)])
    match = re.search(r"(\w+)_kernel\b", name)
    if match:
        return Kernel(match.group(1))
    raise ValueError(
        "Unknown kernel. Expected one of kernels/cuda, named `*_kernel`. "
        f"Received: {name}"
    )


def launches(nvcc: str, folder: pathlib.Path) -> dict[Kernel, Launch]:
    """Asks the headers of the kernels how they are launched."""
    program = folder / "gpu_launches"
    _run(
        [
            nvcc,
            "-std=c++17",
            "-arch=sm_80",
            f"-I{KERNELS}",
            f"-I{KERNELS / 'include'}",
            str(pathlib.Path(__file__).with_name("gpu_launches.cu")),
            "-o",
            str(program),
        ]
    )
    return {
        Kernel(
            each["kind"], each["number"], each["math"], each["tile"]
        ): Launch(each["threads"], each["dynamic_shared"])
        for each in json.loads(_run([str(program)]))
    }


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout
