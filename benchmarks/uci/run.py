# SPDX-License-Identifier: Apache-2.0
"""Runs one method on the splits of one set."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from uci.data import UciSet
from uci.methods import METHODS
from uci.scores import SCORES
from uci.scores import mean_and_error
from uci.scores import scores
from uci.settings import Settings
from uci.state import State


def run_splits(
    uci: UciSet,
    method: str,
    settings: Settings,
    splits: Sequence[int],
    state: State,
) -> dict[str, Any]:
    """Runs what is not yet in `state`; returns the summary of all.

    A split depends on the seed and its number, not on which others are run.
    """
    bar = keras.utils.Progbar(
        len(splits), unit_name="split", stateful_metrics=SCORES
    )
    done: list[dict[str, Any]] = []
    # Those that are there come first: the bar begins where it ended.
    for split in sorted(splits, key=lambda k: (k not in state.splits, k)):
        if split not in state.splits:
            state.add(split, _run_split(uci, method, settings, split))
        done.append(state.splits[split])
        means = [
            (name, mean_and_error([record[name] for record in done])["mean"])
            for name in SCORES
        ]
        bar.update(len(done), means)
    return summary([state.splits[split] for split in splits], settings)


def _run_split(
    uci: UciSet, method: str, settings: Settings, split: int
) -> dict[str, Any]:
    train, test = uci.split(split)
    seed = np.random.SeedSequence([settings.seed, split])
    began, cpu_began = time.perf_counter(), time.process_time()
    fitted = METHODS[method].fit(train, uci, settings, seed)
    trained = time.perf_counter()
    prediction = fitted.predict(test.x)
    return {
        "split": split,
        **scores(prediction, test.y),
        "chosen": fitted.chosen,
        "fit_seconds": round(trained - began, 3),
        "predict_seconds": round(time.perf_counter() - trained, 3),
        # Of all cores together; other programs do not count.
        "cpu_seconds": round(time.process_time() - cpu_began, 3),
    }


def summary(
    records: Sequence[dict[str, Any]], settings: Settings
) -> dict[str, Any]:
    """Returns means and errors over splits, with the splits themselves."""
    return {
        "settings": dataclasses.asdict(settings),
        **{
            name: mean_and_error([record[name] for record in records])
            for name in SCORES
        },
        "seconds": round(
            sum(r["fit_seconds"] + r["predict_seconds"] for r in records), 1
        ),
        "cpu_seconds": round(sum(r["cpu_seconds"] for r in records), 1),
        "splits": list(records),
    }
