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
    stored = [split for split in splits if split in state.splits]
    missing = [split for split in splits if split not in state.splits]
    done = [state.splits[split] for split in stored]
    if done:
        _show(bar, done)  # begins where it ended
    at_once = METHODS[method].at_once
    for first in range(0, len(missing), at_once):
        together = missing[first : first + at_once]
        for record in _run_together(uci, method, settings, together):
            state.add(record["split"], record)
            done.append(record)
        _show(bar, done)
    return summary([state.splits[split] for split in splits], settings)


def _show(bar: Any, done: Sequence[dict[str, Any]]) -> None:
    means = [
        (name, mean_and_error([record[name] for record in done])["mean"])
        for name in SCORES
    ]
    bar.update(len(done), means)


def _run_together(
    uci: UciSet, method: str, settings: Settings, splits: Sequence[int]
) -> list[dict[str, Any]]:
    """Fits some splits together; each has its share of the time."""
    parts = [uci.split(split) for split in splits]
    seeds = [np.random.SeedSequence([settings.seed, split]) for split in splits]
    began, cpu_began = time.perf_counter(), time.process_time()
    fit = METHODS[method].fit
    fitted = fit([train for train, _ in parts], uci, settings, seeds)
    trained = time.perf_counter()
    predictions = [
        each.predict(test.x)
        for each, (_, test) in zip(fitted, parts, strict=True)
    ]
    predicted, cpu_ended = time.perf_counter(), time.process_time()
    seconds = {
        "fit_seconds": trained - began,
        "predict_seconds": predicted - trained,
        # Of all cores together; other programs do not count.
        "cpu_seconds": cpu_ended - cpu_began,
    }
    share = {
        name: round(total / len(splits), 3) for name, total in seconds.items()
    }
    return [
        {
            "split": split,
            **scores(prediction, test.y),
            "chosen": each.chosen,
            **share,
        }
        for split, (_, test), each, prediction in zip(
            splits, parts, fitted, predictions, strict=True
        )
    ]


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
