# SPDX-License-Identifier: Apache-2.0
"""Closes what a test has drawn: pyplot keeps every figure."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")
