# SPDX-License-Identifier: Apache-2.0
"""Builds, checks and times the GPU kernels, on a machine that has a GPU.

    make test-gpu

Without a GPU it says so, says what it would do, and does nothing: that is not
a pass of anything. The steps stop at the first that fails.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = "tests/gpu"
# Under a sanitizer, the one test that has a bit of everything.
SMALL = f"{TESTS}/test_dropout_chain_gpu.py"
SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck")
# In the mangled names of all kernels of this library, and of no others.
OURS = "3kbd"


def nvidia_gpus() -> list[str]:
    """Returns the GPUs that the driver knows."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    done = subprocess.run(
        [tool, "-L"], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return [line for line in lines if line.startswith("GPU")]


def tensorflow_gpus() -> int:
    """Returns how many GPUs TensorFlow can use."""
    program = (
        "import tensorflow as tf\n"
        "print('kbd:', len(tf.config.list_physical_devices('GPU')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.rsplit("kbd:", 1)[1])


def build() -> bool:
    """Installs the package with GPU kernels, or fails."""
    tools = os.pathsep.join(
        (str(pathlib.Path(sys.executable).parent), os.environ["PATH"])
    )
    return _succeeds(
        [
            *(sys.executable, "-m", "pip", "install", "-q"),
            *("--disable-pip-version-check", "--no-input", "--no-deps"),
            "--no-build-isolation",
            "--config-settings=build-dir=build/ops-gpu",
            "--config-settings=cmake.define.KBD_CUDA=ON",
            *("-e", "."),
        ],
        PATH=tools,
    )


def parity() -> bool:
    """Runs the tests on the GPU."""
    return _succeeds([sys.executable, "-m", "pytest", TESTS], KBD_TEST_GPU="1")


def sanitize() -> bool:
    """Runs a small test under each tool of compute-sanitizer."""
    if shutil.which(SANITIZER) is None:
        print(f"   left out: no {SANITIZER} in the path")
        return True
    return all(
        _succeeds(
            [
                *(SANITIZER, "--tool", tool, "--error-exitcode", "9"),
                *("--kernel-name", f"kernel_substring={OURS}"),
                *("--target-processes", "all", "--report-api-errors", "no"),
                *(sys.executable, "-m", "pytest", "-q", SMALL),
                *("-k", "one_of_everything", "-o", "timeout=3600"),
            ],
            KBD_TEST_GPU="1",
        )
        for tool in TOOLS
    )


def bench() -> bool:
    """Times the op beside TensorFlow."""
    return _succeeds([sys.executable, "benchmarks/bench_gpu.py"])


STEPS: tuple[tuple[str, Callable[[], bool]], ...] = (
    ("build the op library with KBD_CUDA=ON", build),
    (f"run {TESTS}: the GPU against the CPU and the reference engine", parity),
    (f"run {SANITIZER} ({', '.join(TOOLS)}), if there is one", sanitize),
    ("time against TensorFlow, write benchmarks/results/gpu.json", bench),
)


def _succeeds(command: Sequence[str], **environment: str) -> bool:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, check=False
    )
    return done.returncode == 0


def main() -> int:
    """Takes the steps, or says that there is no GPU."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--no-build", action="store_true", help="take the library as it is"
    )
    chosen = options.parse_args()
    steps = STEPS[1:] if chosen.no_build else STEPS
    gpus = nvidia_gpus()
    if not gpus:
        print("No GPU here: nothing was built, run or shown. With one, this")
        print("would, in this order:")
        for number, (what, _) in enumerate(steps, 1):
            print(f"{number}. {what}")
        return 0
    print("\n".join(gpus))
    if not tensorflow_gpus():
        print(
            "TensorFlow does not see the GPU. Expected its CUDA libraries; "
            "`pip install 'tensorflow[and-cuda]'`, of the same version, "
            "brings them.",
            file=sys.stderr,
        )
        return 1
    for number, (what, take) in enumerate(steps, 1):
        print(f"{number}. {what}", flush=True)
        if not take():
            print(f"Failed: {what}", file=sys.stderr)
            return 1
    print("All steps succeeded on this GPU.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
