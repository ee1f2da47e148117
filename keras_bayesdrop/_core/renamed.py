# SPDX-License-Identifier: Apache-2.0
"""Names the new spelling of keyword arguments that are gone."""

import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import ParamSpec
from typing import TypeVar

from keras_bayesdrop.errors import BayesdropError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def check_keywords(
    keywords: Mapping[str, Any], spellings: Mapping[str, str]
) -> None:
    """Raises if a keyword argument is gone.

    For constructors of Keras layers, which cannot be decorated: Keras inspects
    their signature.

    Args:
        keywords: The keyword arguments by name.
        spellings: New spelling by old keyword.
    """
    for name in spellings.keys() & keywords.keys():
        raise BayesdropError(
            f"The argument `{name}` is gone. Expected {spellings[name]}. "
            f"Received: {name}={keywords[name]!r}"
        )


def refuse_old_keywords(
    spellings: Mapping[str, str],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a function refuse keywords that it no longer has.

    Args:
        spellings: New spelling by old keyword, such as
            `{"masks": "method=Sampling(masks=...)"}`.

    Returns:
        A decorator that keeps the signature.

    Example:
    ```python
    @refuse_old_keywords({"verbose": "print(info())"})
    def info(): ...
    ```
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            check_keywords(kwargs, spellings)
            return function(*args, **kwargs)

        return checked

    return decorate
