# SPDX-License-Identifier: Apache-2.0
"""The choice of engine, with its reason. Nothing else chooses."""

from keras_bayesdrop._validate import check_choice
from keras_bayesdrop.engines.engine import Engine
from keras_bayesdrop.engines.reference import Reference
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.plan import Plan

ENGINES = ("auto", "reference", "fused")


def choose_engine(plan: Plan, prefer: str = "auto") -> tuple[Engine, str]:
    """Returns the engine for `plan`, and why it was chosen.

    Args:
        plan: The plan to run.
        prefer: One of `"auto"`, `"reference"` and `"fused"`.

    Returns:
        The engine and a reason for people to read.
    """
    check_choice(prefer, "engine", ENGINES)
    if prefer == "reference":
        return Reference(), "asked for"
    why_not = "this version has no compiled op library"
    if prefer == "fused":
        raise EngineUnavailableError(
            f"The fused engine cannot run: {why_not}. Expected "
            "engine='auto' or engine='reference'. Received: engine='fused'"
        )
    return Reference(), why_not
