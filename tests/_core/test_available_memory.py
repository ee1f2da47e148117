# SPDX-License-Identifier: Apache-2.0
"""How much memory there is, read from files as Linux has them."""

import pytest

from keras_bayesdrop._core.memory import available_memory
from keras_bayesdrop._core.memory import describe_bytes

MEMINFO = "MemTotal:  100 kB\nMemAvailable:   60 kB\nHugePages_Total:  0\n"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))


def test_of_the_machine(tmp_path):
    write(tmp_path, {"proc/meminfo": MEMINFO})
    assert available_memory(tmp_path) == 60 * 1024


def test_of_this_machine():
    assert available_memory() > 2**20


def test_unknown(tmp_path):
    assert available_memory(tmp_path) is None


def test_groups_of_version_2_and_those_around_them(tmp_path):
    group = "sys/fs/cgroup/user/job"
    write(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/user/job\n",
            f"{group}/memory.max": "max\n",
            f"{group}/memory.current": 10_000,
            "sys/fs/cgroup/user/memory.max": 30_000,
            "sys/fs/cgroup/user/memory.current": 12_000,
            "sys/fs/cgroup/user/memory.stat": "anon 7\ninactive_file 2000\n",
        },
    )
    assert available_memory(tmp_path) == 20_000
    write(tmp_path, {f"{group}/memory.max": 15_000})
    assert available_memory(tmp_path) == 5_000
    write(tmp_path, {f"{group}/memory.current": 16_000})
    assert available_memory(tmp_path) == 0


def test_groups_of_version_1(tmp_path):
    group = "sys/fs/cgroup/memory"
    write(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "5:cpu:/x\n4:memory:/job\n0::/\n",
            # The whole of it, as a container sees it: no such inner group.
            f"{group}/memory.limit_in_bytes": 40_000,
            f"{group}/memory.usage_in_bytes": 30_000,
            f"{group}/memory.stat": "total_inactive_file 500\n",
        },
    )
    assert available_memory(tmp_path) == 10_500


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (6_400_000_000, "6.4 GB"),
        (1_234_567, "1.23 MB"),
        (2_000_000_000_000, "2 TB"),
        (5 * 10**18, "5,000,000 TB"),
    ],
)
def test_sizes_in_words(number, text):
    assert describe_bytes(number) == text
