# SPDX-License-Identifier: Apache-2.0
"""Compares a prediction with brute force, and with itself."""

import dataclasses
import warnings
from typing import Any

import keras
import numpy as np
from keras.src.random.seed_generator import global_seed_generator

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from tests import zoo
from tests.fuzz.grammar import Case
from tests.fuzz.kinds import REFUSED
from tests.fuzz.kinds import RIGHT
from tests.fuzz.oracle import brute_force
from tests.fuzz.own_layers.batches import OwnModel
from tests.helpers import flat

SAMPLES = 3072
BRUTE_FORCE = 8192
# With a call a sample, brute force is a loop, and so may the prediction be.
SAMPLES_OF_CALLS = 1024
BRUTE_FORCE_OF_CALLS = 3072
# An exceedance is looked at again with so many times more samples.
AGAIN = 4
ERRORS = 5.0  # standard errors
FEW = 32  # samples for comparisons of masks
_SEED = 12345
_SQUARES = "all elements' squares"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome for one model.

    Attributes:
        outcome: `"right"`, `"refused"`, or `"finding"`.
        what: What was found or refused, in a line.
        warned: Whether a `BayesdropWarning` was issued.
    """

    outcome: str
    what: str = ""
    warned: bool = False


class _FindingError(Exception):
    """Something that is neither right nor refused."""


class _RefusedError(Exception):
    """A refusal in the form of the library."""


@dataclasses.dataclass
class _Caller:
    """Predicts with one model, and sees that nothing is touched."""

    case: Case
    warned: bool = False

    def __call__(self, samples: int, **kwargs: Any) -> list[Any]:
        """Returns samples of every output, [samples, rows, ...]."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kwargs = {
                "masks": "independent",
                "draws": "independent",
                "seed": _SEED,
                "head": "regression",
                "verbose": 0,
                "return_samples": True,
                **kwargs,
            }
            try:
                predicted = kbd.predict_with_uncertainty(
                    self.case.model, self.case.x, samples, **flat(**kwargs)
                )
            except BayesdropError as error:
                text = f"{type(error).__name__}: {error}"
                if "Expected" not in text or "Received" not in text:
                    raise _FindingError(f"not in three beats: {text}") from None
                if not _names_a_layer(text, self.case.model):
                    raise _FindingError(f"names no layer: {text}") from None
                raise _RefusedError(text) from None
            except Exception as error:
                text = f"{type(error).__name__}: {error}".replace("\n", " ")
                raise _FindingError(
                    f"raw error ({_shown(kwargs)}): {text[:400]}"
                ) from None
        self.warned |= any(
            issubclass(each.category, BayesdropWarning) for each in caught
        )
        outputs = []
        for each in keras.tree.flatten(predicted):
            values = np.asarray(each.samples, "float64")
            _agree(values.mean(0), each.mean, "the mean, and that of samples")
            _agree(
                values.std(0, ddof=1), each.std, "the std, and that of samples"
            )
            outputs.append(values)
        return outputs


def _names_a_layer(text: str, model: Any) -> bool:
    """Returns whether a message says which layer it is about, by name or class.

    A subclassed model may be one that draws itself.
    """
    return any(
        f"`{layer.name}`" in text
        or f"/{layer.name}`" in text
        or type(layer).__name__ in text
        for layer in model._flatten_layers(
            include_self=isinstance(model, OwnModel)
        )
    )


def _shown(kwargs: dict[str, Any]) -> str:
    names = ("masks", "engine", "batch_size")
    return ", ".join(f"{key}={kwargs[key]}" for key in names if key in kwargs)


def judge(case: Case, truth: Case | None = None) -> Verdict:
    """Predicts with a model in several ways, and says what came of it.

    Args:
        case: The model.
        truth: What brute force samples; the same model by default. Tests of
            this function name another one.
    """
    global_seed_generator()  # made at its first use
    before = _state(case)
    caller = _Caller(case)
    try:
        try:
            samples = caller(_counts(case)[0])
        finally:
            _untouched(before, _state(case))
        if case.expects == REFUSED:
            raise _FindingError("not refused")
        if not (case.warns and caller.warned):
            _compare_ways(case, caller, samples)
            _compare_with_truth(case, truth or case, caller, samples)
        _untouched_by_prediction(case, caller)
        if case.mixes_rows and not caller.warned:
            raise _FindingError("rows see each other, and no warning")
    except _RefusedError as refusal:
        if case.expects == RIGHT:
            return Verdict("finding", f"refused: {refusal}", caller.warned)
        return Verdict("refused", str(refusal), caller.warned)
    except _FindingError as finding:
        return Verdict("finding", str(finding), caller.warned)
    return Verdict("right", "", caller.warned)


def _counts(case: Case) -> tuple[int, int]:
    if case.per_call:
        return SAMPLES_OF_CALLS, BRUTE_FORCE_OF_CALLS
    return SAMPLES, BRUTE_FORCE


def _state(case: Case) -> dict[str, Any]:
    """Returns everything that a prediction must not change."""
    numpy = np.random.get_state()  # noqa: NPY002
    state = {
        **zoo.fingerprint(case.model),
        "global seed": np.asarray(global_seed_generator().state).tobytes(),
    }
    if not case.warns:  # or else the model draws from NumPy itself
        state["NumPy's state"] = (numpy[1].tobytes(), numpy[2])
    return state


def _untouched(before: dict[str, Any], after: dict[str, Any]) -> None:
    if before != after:
        changed = [
            key
            for key in {**before, **after}
            if before.get(key, "absent") != after.get(key, "absent")
        ]
        raise _FindingError(f"changed: {', '.join(changed[:4])}")


def _untouched_by_prediction(case: Case, caller: _Caller) -> None:
    """Looks once more when all programs are there."""
    before = _state(case)
    caller(FEW)
    _untouched(before, _state(case))


def _compare_ways(case: Case, caller: _Caller, samples: list[Any]) -> None:
    """The same masks by another engine, in other batches, another time."""
    first = [y[:FEW] for y in samples]
    few = caller(FEW)
    for one, other in zip(few, caller(FEW), strict=True):
        if one.tobytes() != other.tobytes():
            raise _FindingError("the same seed gives other bits")
    ways = {"fewer samples": few, "engine": caller(FEW, engine="reference")}
    if not (case.mixes_rows or case.fixed_rows):
        ways["batch_size"] = caller(FEW, batch_size=2)
    for way, values in ways.items():
        for one, other in zip(first, values, strict=True):
            _agree(one, other, f"samples by another {way}")


def _agree(one: Any, other: Any, what: str) -> None:
    """Raises unless two arrays are equal up to rounding in float32."""
    if one.shape != other.shape:
        raise _FindingError(f"{what}: shapes {one.shape} and {other.shape}")
    scale = 1.0 + float(np.max(np.abs(one), initial=0.0))
    worst = float(np.max(np.abs(one - other), initial=0.0))
    if not worst <= 1e-4 * scale:
        raise _FindingError(f"{what}, differ: by {worst:.3g} of {scale:.3g}")


def _compare_with_truth(
    case: Case, truth: Case, caller: _Caller, samples: list[Any]
) -> None:
    """Means and variances within the standard errors, or a second look."""
    count, brute = _counts(case)

    def look(times: int, seed: int) -> str | None:
        expected = brute_force(truth, times * brute)
        independent = samples
        if times > 1:
            independent = caller(times * count, seed=seed)
        problem = _problem(case, independent, expected, True)
        if problem is not None or case.mixes_rows:
            # Where rows see each other, their masks matter together.
            return problem
        shared = caller(times * count // 2, masks="shared", seed=seed + 1)
        problem = _problem(case, shared, expected, False)
        return None if problem is None else f"masks='shared': {problem}"

    if look(1, _SEED) is None:
        return
    # By chance once in many models: only a repeated exceedance counts.
    problem = look(AGAIN, _SEED + 1)
    if problem is not None:
        raise _FindingError(problem)


def _problem(
    case: Case, samples: list[Any], expected: list[Any], independent: bool
) -> str | None:
    """Returns the worst exceedance, if there is one."""
    if len(samples) != len(expected):
        return f"{len(samples)} outputs, not {len(expected)}"
    worst, text = ERRORS, None
    for number, (ours, theirs) in enumerate(
        zip(samples, expected, strict=True)
    ):
        if ours.shape[1:] != theirs.shape[1:]:
            return f"shape {ours.shape[1:]}, not {theirs.shape[1:]}"
        if not np.isfinite(theirs).all():
            continue
        # Rows of shared masks are one draw; some of Keras' draws are, too.
        rows = independent and not case.shares_rows
        pairs = zip(
            _statistics(ours, theirs, rows),
            _statistics(theirs, theirs, rows),
            strict=True,
        )
        for (name, mine), (_, true) in pairs:
            means_only = name == _SQUARES
            errors, mean_or_variance, got, wanted = _deviation(
                mine, true, means_only
            )
            if errors > worst:
                worst = errors
                text = (
                    f"output {number}, {mean_or_variance} of {name}: "
                    f"{got:.4g}, brute force {wanted:.4g} "
                    f"({errors:.1f} standard errors)"
                )
    return text


def _statistics(
    samples: Any, scale_by: Any, across_rows: bool
) -> list[tuple[str, Any]]:
    """Returns numbers of each sample, [samples, numbers], by name.

    Sums see what single elements do not: whether steps, units and rows have
    masks of their own. Sums of squares have the power of all elements.
    """
    rng = np.random.default_rng(0)
    count, rows = samples.shape[:2]
    flat = samples.reshape(count, rows, -1)
    statistics = [("elements", flat.reshape(count, -1))]
    for axis in range(2, samples.ndim):
        if samples.shape[axis] > 1:
            place = "units" if axis == samples.ndim - 1 else f"axis {axis - 1}"
            total = samples.sum(axis).reshape(count, -1)
            statistics.append((f"sums over {place}", total))
    units = flat.shape[2]
    if units > 1:
        signs = rng.choice([-1.0, 1.0], (units, 3))
        statistics.append(("projections", (flat @ signs).reshape(count, -1)))
    if across_rows and rows > 1:
        signs = rng.choice([-1.0, 1.0], (rows, 2))
        signs[:, 0] = 1.0
        across = np.einsum("tru,rk->tku", flat, signs)
        statistics.append(("sums over rows", across.reshape(count, -1)))
    centre = scale_by.mean(0).reshape(rows, units)
    spread = scale_by.std(0).reshape(rows, units)
    varies = spread > 1e-5 * (1.0 + np.abs(centre))
    if varies.any():
        units_of_spread = (flat - centre)[:, varies] / spread[varies]
        statistics.append(
            (_SQUARES, np.square(units_of_spread).mean(1)[:, None])
        )
    return statistics


def _deviation(
    mine: Any, true: Any, means_only: bool
) -> tuple[float, str, float, float]:
    """Returns the worst of means and variances, in standard errors."""
    scale = 1.0 + np.abs(true).max(0)
    mean, mean_error, variance, variance_error = _moments(mine)
    means, means_error, variances, variances_error = _moments(true)
    rounding = 1e-5 * scale
    # What errors to first order leave out, where samples have two values.
    second_order = 4.0 / min(len(mine), len(true))
    errors = [
        np.maximum(np.abs(a - b) - slack, 0.0)
        / np.maximum(np.sqrt(e**2 + f**2), floor)
        for a, b, e, f, slack, floor in [
            (
                mean,
                means,
                mean_error,
                means_error,
                rounding + (second_order * means if means_only else 0.0),
                1e-12,
            ),
            (
                variance,
                variances,
                variance_error,
                variances_error,
                rounding**2 + second_order * variances,
                1e-18,
            ),
        ]
    ]
    which = int(not means_only and errors[1].max() > errors[0].max())
    place = int(errors[which].argmax())
    got, wanted = ((mean, means), (variance, variances))[which]
    return (
        float(errors[which][place]),
        ("mean", "variance")[which],
        float(got[place]),
        float(wanted[place]),
    )


def _moments(y: Any) -> tuple[Any, Any, Any, Any]:
    """Returns mean and variance of columns, each with its standard error."""
    count = y.shape[0]
    mean = y.mean(0)
    squares = np.square(y - mean)
    variance = squares.mean(0)
    return (
        mean,
        np.sqrt(variance / count),
        variance,
        np.sqrt(squares.var(0) / count),
    )
