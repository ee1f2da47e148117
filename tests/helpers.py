# SPDX-License-Identifier: Apache-2.0
"""What the tests share.

Keras' own contract test of a layer is private, so it is imported here and
nowhere else.
"""

import contextlib
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src.testing import TestCase as KerasTestCase

import keras_bayesdrop as kbd


class TestCase(KerasTestCase):
    """A test with the assertions of Keras and its `run_layer_test`."""

    def run_layer_test(self, *args: Any, **kwargs: Any) -> None:
        """Runs the contract test of Keras on a layer."""
        with warnings.catch_warnings():
            # It fits from a generator and leaves `shuffle` at its default,
            # and does so for layers that have nothing to train.
            warnings.filterwarnings("ignore", "`shuffle=True` was passed")
            warnings.filterwarnings("ignore", "The model does not have any")
            super().run_layer_test(*args, **kwargs)

    def assertAllEqual(self, actual: Any, desired: Any, msg: str = "") -> None:
        """Asserts that two arrays are the same; old Keras has no such test."""
        np.testing.assert_array_equal(
            np.asarray(actual), np.asarray(desired), msg
        )

    def run_in_new_process(self, program: str, *arguments: str) -> str:
        """Runs a program in a fresh interpreter and returns what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.assertEqual(done.returncode, 0, msg=done.stderr)
        return done.stdout


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file grows beyond a size: `EFBIG`, since Python ignores SIGXFSZ."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


_SAMPLED = ("masks", "draws", "tolerance", "absolute_tolerance", "engine")
_CLOSED_FORM = ("covariance", "fallback")


def flat(**options):
    """Returns arguments of a prediction for choices that tests write flat.

    `flat(masks="shared", head="binary", seed=0)` is `{"method":
    Sampling(masks="shared"), "head": "binary", "seed": 0}`.
    """
    method = options.pop("method", "sampling")
    sampled = {k: options.pop(k) for k in _SAMPLED if k in options}
    closed = {k: options.pop(k) for k in _CLOSED_FORM if k in options}
    head = options.pop("head", "auto")
    details = {
        name: options.pop(name)
        for name in ("from_logits", "noise_precision")
        if options.get(name) is not None
    }
    options.pop("from_logits", None)
    options.pop("noise_precision", None)
    if method == "sampling":
        method = kbd.Sampling(**sampled, **closed)
    elif method == "rao_blackwell":
        method = kbd.RaoBlackwell(**sampled, **closed)
    elif method == "moments":
        if sampled and closed.get("fallback") == "sampling":
            closed["fallback"] = kbd.Sampling(**sampled)
        method = kbd.Moments(**closed)
    if head == "regression" and not details.get("from_logits"):
        details.pop("from_logits", None)
    if details:
        heads = {
            "auto": kbd.Regression,
            "regression": kbd.Regression,
            "classification": kbd.Classification,
            "binary": kbd.Binary,
        }
        head = heads[head](**details)
    return {**options, "method": method, "head": head}
