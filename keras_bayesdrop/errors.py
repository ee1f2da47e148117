# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by name.

Every error a caller can cause is a `ValueError`, so that code written for
Keras catches it; the subclasses let a program tell the cases apart. Messages
have three beats: what is wrong, what was expected, what was received.
"""


class BayesdropError(ValueError):
    """Base of all errors raised by `keras_bayesdrop`."""


class BackendError(BayesdropError):
    """Keras runs on a backend other than TensorFlow."""


class UnbuiltModelError(BayesdropError):
    """The model has no weights yet, so nothing can be predicted."""


class NothingToSampleError(BayesdropError):
    """The model has no active noise site: every sample would be the same."""


class HiddenNoiseError(BayesdropError):
    """The model draws noise that cannot be sampled."""


class SelectionError(BayesdropError):
    """A `layers` argument that matches nothing it could stand for."""


class PlanError(BayesdropError):
    """The model's graph cannot be run for several samples at once."""


class NonFiniteError(BayesdropError):
    """NaN or infinity in the inputs or in the outputs."""


class EngineUnavailableError(BayesdropError):
    """The engine asked for cannot run here."""


class MissingSamplesError(BayesdropError):
    """A quantity that needs the single samples, which were not kept."""


class MissingPackageError(BayesdropError, ImportError):
    """A package that is not installed with this one, and is needed here."""


class TooLargeError(BayesdropError):
    """A file that would take more memory than it is allowed to."""


class WriteError(BayesdropError, OSError):
    """A file that could not be written; what was there is untouched."""

    def __str__(self) -> str:
        """The message; `OSError` would name the error number instead."""
        return str(self.args[0]) if self.args else ""


class BayesdropWarning(UserWarning):
    """Something works, but probably not as the caller believes."""
