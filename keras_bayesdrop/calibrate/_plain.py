# SPDX-License-Identifier: Apache-2.0
"""Fitted objects as plain dicts of numbers and strings, for JSON."""

import dataclasses
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

import numpy as np

from keras_bayesdrop.errors import BayesdropError

_T = TypeVar("_T", bound="Plain")


class Plain:
    """Base of dataclasses that `json` can hold as a dict."""

    def to_dict(self) -> dict[str, Any]:
        """Returns numbers, strings and lists, for JSON or any other store."""
        fields: Any = self
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(fields)
        }

    @classmethod
    def from_dict(cls: type[_T], values: Mapping[str, Any]) -> _T:
        """Returns the object that `to_dict` was called on.

        Args:
            values: What `to_dict` returned.
        """
        fields: Any = cls
        names = {field.name for field in dataclasses.fields(fields)}
        if not isinstance(values, Mapping) or set(values) != names:
            given = sorted(values) if isinstance(values, Mapping) else values
            raise BayesdropError(
                f"Cannot read a {cls.__name__}. Expected a dict with the keys "
                f"{sorted(names)}. Received: {given}"
            )
        return cls(**values)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
