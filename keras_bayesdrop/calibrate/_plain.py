# SPDX-License-Identifier: Apache-2.0
"""Conversion of fitted objects to dicts that JSON can hold."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

import numpy as np

from keras_bayesdrop.errors import BayesdropError

_T = TypeVar("_T", bound="Plain")


class Plain:
    """Base of dataclasses that convert to a dict for JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as numbers, strings and lists."""
        fields: Any = self
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(fields)
        }

    @classmethod
    def from_dict(cls: type[_T], values: Mapping[str, Any]) -> _T:
        """Returns the object of a dict.

        Args:
            values: Dict that `to_dict` returned.
        """
        fields: Any = cls
        names = {field.name for field in dataclasses.fields(fields)}
        if not isinstance(values, Mapping) or set(values) != names:
            is_mapping = isinstance(values, Mapping)
            received = sorted(values) if is_mapping else values
            raise BayesdropError(
                f"Cannot read a {cls.__name__}. Expected a dict with the keys "
                f"{sorted(names)}. Received: {received}"
            )
        return cls(**values)


def _plain(value: Any) -> Any:
    """Returns arrays and tuples as lists, and infinity as text.

    JSON has no infinity; NumPy and `float` read the text.
    """
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return "inf" if value == math.inf else value
