# SPDX-License-Identifier: Apache-2.0
"""The folder in which tests of `keras-bayesdrop predict` run."""

import numpy as np
import pytest

from tests.cli import files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a regression and data, which is the current one."""
    monkeypatch.chdir(tmp_path)
    files.save(files.regression(), tmp_path / "model.keras")
    np.save("data.npy", files.data())
    return tmp_path
