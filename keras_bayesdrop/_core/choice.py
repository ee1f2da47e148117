# SPDX-License-Identifier: Apache-2.0
"""Frozen objects that hold a user's choices: `method=Sampling(...)` and such.

They live where Keras may be missing, so they have plain configs and are not in
Keras' registry. An argument takes the object, its config, or the name of its
class in snake case, which stands for the object with all defaults.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from keras_bayesdrop._core.validate import invalid

MASKS = ("shared", "independent")
DRAWS = ("balanced", "independent")
DEFAULT_DRAWS = "balanced"
# Samples of a counter block, which balanced draws share out.
SAMPLES_PER_BLOCK = 16
ENGINES = ("auto", "reference", "fused")


class Choice:
    """Base of frozen dataclasses that hold the choices of a user."""

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal object."""
        config = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            config[field.name] = (
                serialize(value) if isinstance(value, Choice) else value
            )
        return config

    @classmethod
    def from_config(cls: type["_C"], config: Mapping[str, Any]) -> "_C":
        """Makes an object of what `get_config` returned."""
        names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if not isinstance(config, Mapping) or not names.issuperset(config):
            raise invalid(
                "config", config, f"a dict with keys among {sorted(names)}"
            )
        return cls(**config)


_C = TypeVar("_C", bound=Choice)


def snake_case(cls: type) -> str:
    """Returns the name of a class in snake case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def serialize(choice: Choice) -> dict[str, Any]:
    """Returns a choice as a plain dict, which `get_choice` reads."""
    return {
        "class_name": type(choice).__name__,
        "config": choice.get_config(),
    }


def get_choice(value: Any, argument: str, classes: tuple[type[_C], ...]) -> _C:
    """Returns the choice that an argument stands for.

    Args:
        value: An object of one of the classes, its name in snake case, or
            what `serialize` made of it.
        argument: Name of the argument, for the message.
        classes: What is allowed.
    """
    if type(value) in classes:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        for cls in classes:
            if snake_case(cls) == value:
                return cls()
    if isinstance(value, Mapping) and set(value) == {"class_name", "config"}:
        for cls in classes:
            if cls.__name__ == value["class_name"]:
                return cls.from_config(value["config"])
    names = [repr(snake_case(cls)) for cls in classes]
    objects = [f"{cls.__name__}(...)" for cls in classes]
    raise invalid(argument, value, f"one of {', '.join(names + objects)}")
