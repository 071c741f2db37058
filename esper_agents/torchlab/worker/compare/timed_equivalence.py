"""Judge timed calls, and the processes that made them, from bytes alone and without user code."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from . import side_effects
from .equivalence import check_of
from .observations import NUMBERS, OF_PARAMETERS, process_of, reduced
from .pytree_diff import FORM, Leaf, compared
from .tensor_bundle import Bundle, Piece
from .tensor_bytes import BundleError
from .tolerance import Runs, ToleranceFit, fit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .plan_step import ObservedProcess
    from .result import EquivalenceCheck

_Json = dict[str, Any]
_CHECKS = {"gradients": "gradients", "inputs_after": "mutation", "state_after": "state"}
_MOST_TEXTS = 3


def judge_timed(request: _Json) -> tuple[EquivalenceCheck, ...]:
    """Compare what timed calls left behind in both arms: outputs, gradients, inputs and state.

    Args:
        request: `files`: descriptors of the two bundles, baseline first, with pieces such as `output 3`; `calls`: the
            numbers of the calls to judge; `scales` from `equivalence.judge`; `variant`: name of the batch; `allow`;
            `hidden`: parameters of the baseline that have no counterpart; `rtol`, `atol`.

    Returns:
        Checks.
    """
    allow, scales, variant = frozenset(request.get("allow") or ()), request.get("scales") or {}, request["variant"]
    judged = partial(
        _judged,
        variant=variant,
        scales=scales,
        allow=allow,
        hidden=set(request["hidden"]),
        stated=(request["rtol"], request["atol"]),
    )
    found: list[EquivalenceCheck] = []
    try:
        one, other = (Bundle(each).pieces for each in request["files"])
        for number in request["calls"]:
            for what in NUMBERS[:2] + NUMBERS[3:]:
                name = f"{what} {number}"
                if name in one or name in other:
                    found += judged((one[name], other[name]), what)
        if "state_after" in one or "state_after" in other:
            found += judged((one["state_after"], other["state_after"]), "state_after")
    except (BundleError, KeyError) as error:
        return (check_of("comparable", variant, f"what was returned cannot be read: {error}", is_allowed=False),)
    return tuple(_first_of_each(found))


def _first_of_each(found: list[EquivalenceCheck]) -> Iterator[EquivalenceCheck]:
    """Yield one check of each name: the first that failed, or the first."""
    for name in dict.fromkeys(each.check for each in found):
        row = [each for each in found if each.check == name]
        yield next((each for each in row if not each.is_passed), row[0])


def _judged(
    pieces: tuple[Piece, Piece],
    what: str,
    *,
    variant: str,
    scales: _Json,
    allow: frozenset[str],
    hidden: set[str],
    stated: tuple[float, float],
) -> Iterator[EquivalenceCheck]:
    if hidden and what in OF_PARAMETERS:
        pieces = (reduced(pieces[0], hidden), reduced(pieces[1], hidden))

    def judge(leaf: Leaf, runs: Runs) -> ToleranceFit:
        # Timed calls have no float64 run: the difference of the arms on plain inputs says what rounding does.
        scale = scales.get(f"{what} {leaf.number}")
        return fit(replace(runs, apart=scale["apart"] if scale else 0.0, rtol=stated[0], atol=stated[1]))

    for each in compared(*pieces, judge):
        if what == "output":
            yield check_of(each.check, variant, each.detail, each.numbers, is_allowed=each.check in allow)
        elif each.check not in FORM and each.check != "aliasing":
            name = _CHECKS[what]
            yield check_of(name, variant, each.detail, each.numbers, is_allowed=name in allow)


def judge_processes(request: _Json) -> tuple[EquivalenceCheck, ...]:
    """Compare the state of the processes that timed both arms, with each other and with those that were observed.

    Args:
        request: `files`: descriptors of observations: baseline and candidate, then both timed processes; `variant`;
            `allow`.

    Returns:
        Checks.
    """
    allow, variant = frozenset(request.get("allow") or ()), request["variant"]
    try:
        seen = [process_of(Bundle(each)) for each in request["files"]]
    except (BundleError, KeyError, TypeError) as error:
        return (check_of("comparable", variant, f"the timed processes cannot be read: {error}", is_allowed=False),)
    baseline, candidate, timed, other = seen
    is_one_file = bool(timed.file) and timed.file == other.file
    texts = dict(side_effects.of_process(timed, other, is_one_file=is_one_file))
    patched = [texts["patched"], *_changed(baseline, timed, "A"), *_changed(candidate, other, "B")]
    texts["patched"] = "; ".join(filter(None, patched[: _MOST_TEXTS + 1]))
    return tuple(
        check_of(name, variant, texts[name], is_allowed=name in allow)
        for name in ("processes", "global-state", "patched")
    )


def _changed(observed: ObservedProcess, timed: ObservedProcess, arm: str) -> Iterator[str]:
    """Yield what code replaced in the timed process of an arm alone."""
    for name in sorted(set(timed.replaced_by_user) - set(observed.replaced_by_user)):
        yield f"where {arm} is timed, {name} is {timed.replaced.get(name, 'something else')}"
    if observed.code != timed.code:
        yield f"where {arm} is timed, a call runs {timed.code or 'no Python'}, and {observed.code or 'none'} otherwise"
