# SPDX-License-Identifier: Apache-2.0
"""From what a user writes for a structure and its priors to the priors."""

from typing import Any

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.priors import ScalePrior
from keras_bayesdrop.priors import get
from keras_bayesdrop.priors.structures import STRUCTURES
from keras_bayesdrop.priors.structures import check_structure


def check_structure_name(structure: Any) -> str | None:
    """Returns the structure, with an underscore."""
    if structure is None:
        return None
    if structure == "ard-add":
        return "ard_add"
    if not isinstance(structure, str) or structure not in STRUCTURES:
        options = ", ".join(repr(name) for name in STRUCTURES)
        raise invalid("structure", structure, f"{options} or `None`")
    return structure


def check_priors(
    scale_prior: Any, structure: str | None
) -> tuple[ScalePrior | None, ScalePrior | None]:
    """Returns the priors of the row scales and of the matrix scale."""
    name = "scale_prior"
    if structure is None:
        if scale_prior is not None:
            raise invalid(name, scale_prior, "`None` with structure=None")
        return None, None
    given = scale_prior
    if not isinstance(scale_prior, (list, tuple)):
        given = (scale_prior,) * sum(STRUCTURES[structure])
    elif structure != "ard_add" or len(scale_prior) != 2:
        raise invalid(
            name,
            scale_prior,
            "a prior; or two, of rows and of the matrix, with "
            "structure='ard_add'",
        )
    priors = [
        get("inverse_gamma" if each is None else each, of="scales", name=name)
        for each in given
    ]
    row, matrix = STRUCTURES[structure]
    return check_structure(
        structure, priors[0] if row else None, priors[-1] if matrix else None
    )
