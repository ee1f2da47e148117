# SPDX-License-Identifier: Apache-2.0
"""Errors and warnings of the package.

Every error that a caller can cause is a `ValueError`, so that code written for
Keras catches it. A subclass lets a program tell the cases apart. A message says
what is wrong, what was expected, and what was received.
"""


class BayesdropError(ValueError):
    """Base of all errors raised by `keras_bayesdrop`."""


class BackendError(BayesdropError):
    """Keras runs on a backend other than TensorFlow."""


class UnbuiltModelError(BayesdropError):
    """The model has no weights yet, so it cannot predict."""


class NothingToSampleError(BayesdropError):
    """The model has no active noise site: every sample would be the same."""


class HiddenNoiseError(BayesdropError):
    """The model draws noise that cannot be sampled."""


class SelectionError(BayesdropError):
    """An entry of the argument `layers` matches no layer."""


class PlanError(BayesdropError):
    """The model's graph cannot be run for several samples at once."""


class NonFiniteError(BayesdropError):
    """The inputs or the outputs hold NaN or infinity."""


class EngineUnavailableError(BayesdropError):
    """The requested engine cannot run here."""


class MissingSamplesError(BayesdropError):
    """A quantity needs the single samples, which were not kept."""


class MissingPackageError(BayesdropError, ImportError):
    """An optional or missing package is needed."""


class TooLargeError(BayesdropError):
    """A file would take more memory than the limit."""


class WriteError(BayesdropError, OSError):
    """A file could not be written; the old file is untouched."""

    def __str__(self) -> str:
        """Returns the message; `OSError` would return the error number."""
        return str(self.args[0]) if self.args else ""


class BayesdropWarning(UserWarning):
    """Something works, but probably not as the caller believes."""
