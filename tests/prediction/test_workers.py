# SPDX-License-Identifier: Apache-2.0
"""Prediction by two processes that share the work: what one gives.

The processes are real, and talk over the loopback device.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.prediction import on_workers

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKERS = 2
SECONDS = 300  # Far more than it takes, even on a busy machine.


def free_ports(number):
    """Returns ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start(index, addresses, folder):
    config = {
        "cluster": {"worker": addresses},
        "task": {"type": "worker", "index": index},
    }
    with open(folder / f"worker{index}.log", "w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.prediction.on_workers", str(folder)],
            cwd=ROOT,
            env={**os.environ, "TF_CONFIG": json.dumps(config)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Returns what each worker got."""
    folder = tmp_path_factory.mktemp("workers")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
    workers = []
    try:
        for index in range(WORKERS):
            workers.append(start(index, addresses, folder))
        codes = [worker.wait(SECONDS) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    logs = [path.read_text() for path in sorted(folder.glob("*.log"))]
    assert codes == [0] * WORKERS, "\n".join(logs)
    found = []
    for index in range(WORKERS):
        with np.load(folder / f"worker{index}.npz") as archive:
            found.append(dict(archive))
    return found


@pytest.mark.parametrize("name", on_workers.CASES)
def test_every_worker_has_what_one_process_gives(found, name):
    arguments = on_workers.CASES[name]
    expected = on_workers.predict(on_workers.build(name=name), **arguments)
    assert expected.stats.num_replicas == 1
    for worker in found:
        assert worker[f"{name}/replicas"] == WORKERS
        for key, value in on_workers.arrays(expected).items():
            # Float32 matmuls of other sizes, of numbers up to 1.
            np.testing.assert_allclose(
                worker[f"{name}/{key}"], value, rtol=0, atol=1e-5, err_msg=key
            )


def test_rows_take_different_numbers_of_samples(found):
    assert len(set(found[0]["adaptive/num_samples_used"])) > 1


def test_workers_agree_on_a_seed(found):
    first, second = found
    assert first["no seed/seed"] == second["no seed/seed"]
    np.testing.assert_array_equal(first["no seed/mean"], second["no seed/mean"])


def test_a_failure_of_one_is_known_to_all(found):
    first, second = (worker["failure"].item() for worker in found)
    assert first.startswith("NonFiniteError: NaN or infinity in the outputs")
    assert first.endswith("1 bad row(s), at 1")
    assert second == (
        "BayesdropError: Worker 0 could not predict its share. Expected a "
        f"result from each. Received: {first}"
    )


def test_workers_must_be_asked_the_same(found):
    for worker in found:
        assert worker["different"].item() == (
            "BayesdropError: Workers were asked for different predictions. "
            "Expected the same arguments in all of them. Received: "
            "{'num_samples': '10'} in worker 0 and {'num_samples': '11'} in "
            "worker 1"
        )


def test_workers_stay_in_step(found):
    expected = on_workers.predict(on_workers.build()).mean
    for worker in found:
        np.testing.assert_allclose(worker["after/mean"], expected, atol=1e-5)
