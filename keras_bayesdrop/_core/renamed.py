# SPDX-License-Identifier: Apache-2.0
"""Names the new spelling of keyword arguments that are gone."""

import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from keras_bayesdrop.errors import BayesdropError

_F = TypeVar("_F", bound=Callable[..., Any])


def refuse_old_keywords(spellings: Mapping[str, str]) -> Callable[[_F], _F]:
    """Makes a function refuse keywords that it no longer has.

    Args:
        spellings: New spelling by old keyword, such as
            `{"masks": "method=Sampling(masks=...)"}`.

    Returns:
        A decorator that keeps the signature.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs:
                if name in spellings:
                    raise BayesdropError(
                        f"There is no argument `{name}`. Expected "
                        f"{spellings[name]}. Received: {name}=..."
                    )
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate
