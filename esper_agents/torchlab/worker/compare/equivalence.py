"""Judge whether a candidate is equivalent to a baseline, from bytes alone and without user code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..results import MissingPart
from . import side_effects
from .call_modes import AUTOCAST, COPY, OTHER_DEFAULT
from .numeric_error import largest_gap
from .observations import NUMBERS, ComparisonObservations, ObservedRun, read_case
from .plan_step import FURTHER, ObservedStep, PlannedStep, RaisedError
from .pytree_diff import FORM, Leaf, LeafDifference, OtherStructureError, compared, leaves_of, without_zeros
from .result import (
    BaselineRefusal,
    ComparisonNote,
    EquivalenceCheck,
    EquivalenceJudgement,
    MatchedParameters,
    UnstableOutput,
)
from .tensor_bundle import Piece
from .tensor_bytes import BundleError
from .tolerance import Runs, ToleranceFit, fit

if TYPE_CHECKING:
    from collections.abc import Iterator

_Json = dict[str, Any]
# Checks that further runs of the baseline can change.
_ROUNDED = {"values", "gradients", "state", "mutation", "fresh-parameters"}
_MOST_TEXTS = 3
# Names of the calls in formats of few digits that the user's inputs do not have.
_SHORT_FORMATS = {"bfloat16", "float16"}

# A copy of what torch.compile returns runs the weights of the original, and constants that are made at import have the
# default dtype of that time: such code is right for nearly all who use it.
_UNTESTED_IF_DIFFERENT = {COPY, OTHER_DEFAULT}


def judge(request: _Json) -> EquivalenceJudgement:
    """Judge the equivalence of a candidate.

    Args:
        request: `files`: descriptors of bundles, with their `roles`: `plan`, `baseline`, `again`, `candidate`,
            `reference`, any number of `shifted`. `allow`: names of checks or variants. `readings` and `tolerance` of
            a metric.
    """
    return _Judgement(read_case(request)).result()


class _Judgement:
    def __init__(self, case: ComparisonObservations) -> None:
        self._case = case
        self._checks: list[EquivalenceCheck] = []
        self._notes: list[ComparisonNote] = []
        self._refused: list[MissingPart] = []
        self._is_settled = True
        self._known: dict[tuple[str, ...], list[LeafDifference]] = {}
        self._names = [step.name for step in case.steps]

    def result(self) -> EquivalenceJudgement:
        case = self._case
        for number, step in enumerate(case.steps):
            self._judge_step(number, step)
        self._judge_process()
        is_settled = self._is_settled or any(_is_final(check) for check in self._checks)
        about = case.plan.about
        parameters = case.candidate.bundle.about.get("parameters")
        return EquivalenceJudgement(
            checks=_in_a_row(self._checks, {step.name for step in case.steps if step.is_repeat}),
            is_settled=is_settled,
            nondeterministic=tuple(self._nondeterministic()),
            notes=tuple(self._notes),
            refused=tuple(BaselineRefusal(**each) for each in about["refused"]),
            missing=(*case.missing(), *self._refused),
            parameters=parameters and MatchedParameters(**parameters),
            scales=self._scales(),
        )

    def _judge_step(self, number: int, step: PlannedStep) -> None:
        one, other = self._case.baseline.steps.get(number), self._case.candidate.steps.get(number)
        if one is None or other is None:
            return
        name = step.name
        if one.raised is not None or other.raised is not None:
            if step.group == FURTHER and one.raised is None and other.raised is not None:
                self._refused.append(MissingPart(name, f"B raises {other.raised.type}: {other.raised.message}"))
            else:
                self._judge_raised(name, one.raised, other.raised)
            return
        self._compare(number, name, "output", "fresh-parameters" if step.group == "parameters" else "values")
        self._judge_gradients(number, name, one, other)
        if step.is_close and step.after != "overwrite inputs":
            self._judge_mutation(number, name)
            self._compare(number, name, "state_after", "state")
            generators = side_effects.generators_text(one.generators or {}, other.generators or {})
            self._say("generators", name, generators)
        relations = side_effects.relations_text(one.relations or [], other.relations or [], self._names)
        self._say("aliasing", name, relations)
        if step.after:
            is_late = other.is_unfinished and not one.is_unfinished
            self._say("finished", name, "what it returned changed after it had returned" if is_late else "")
        if other.modes:
            self._say("global-state", name, other.modes)

    def _judge_raised(self, name: str, one: RaisedError | None, other: RaisedError | None) -> None:
        if one is None and other is not None:
            self._say("raises", name, f"the candidate raises {other}")
        elif one is not None and other is None:
            text = f"the baseline raises {one.type}: {one.message}; the candidate returns"
            if one.is_deliberate:
                self._say("raises", name, text)
            else:
                self._note(name, text)
        elif one is not None and other is not None and one.is_deliberate and one.type != other.type:
            self._note(name, f"the baseline raises {one.type}, the candidate {other.type}")

    def _judge_gradients(self, number: int, name: str, one: ObservedStep, other: ObservedStep) -> None:
        if one.backward_raised is not None:
            self._note(name, f"the baseline's backward raises {one.backward_raised.type}")
        elif other.backward_raised is not None and self._case.steps[number].group == FURTHER:
            why = f"B raises {other.backward_raised.type} in backward: {other.backward_raised.message}"
            self._refused.append(MissingPart(name, why))
        elif other.backward_raised is not None:
            self._say("gradients", name, f"the candidate raises {other.backward_raised}")
        else:
            self._compare(number, name, "gradients", "gradients")

    def _compare(self, number: int, variant: str, what: str, values: str) -> None:
        one, other = self._case.baseline.piece(number, what), self._case.candidate.piece(number, what)
        if one is None and other is None:
            return
        if other is None and what == "state_after" and not self._case.baseline.steps[number].changes_state:
            return
        if one is None or other is None:
            who = "the candidate" if other is None else "the baseline"
            self._say(values, variant, f"{who} has no {what.replace('_', ' ')}")
            return
        if what == "gradients" and _is_empty(self._case.plan.pieces[self._case.steps[number].input]):
            one, other, missing = without_zeros(one, other)
            if missing:
                self._note(variant, f"{missing} gradients are None in one and zero in the other, for empty inputs")
        found = self._differences(number, what, one, other)
        if what == "output" and not any(each.detail for each in found if each.check in FORM):
            self._say("form", variant, "")
        for each in found:
            if each.detail and self._case.steps[number].mode in _UNTESTED_IF_DIFFERENT:
                self._refused.append(MissingPart(variant, f"B differs from A there: {each.check}: {each.detail}"))
                continue
            self._take(number, variant, what, values, each)

    def _take(self, number: int, variant: str, what: str, values: str, found: LeafDifference) -> None:
        """Turn a difference into a check, a note, or nothing."""
        is_layout = self._case.steps[number].group == "layout"
        is_autocast = self._case.steps[number].mode == AUTOCAST
        if found.check in FORM and not found.detail:
            return
        if found.not_numbers:
            self._refused.append(
                MissingPart(variant, f"NaN and infinity of numbers that overflow: {found.not_numbers}")
            )
        if found.check == "dtype" and is_autocast:
            # Which operations autocast runs in a short format depends on how the same is written.
            self._note(variant, found.detail)
        elif found.check == "values" and found.detail and (why := self._why_untested(number, what, found)):
            self._refused.append(MissingPart(variant, f"{why}: {found.detail}"))
        elif found.check == "strides" and what == "output" and is_layout:
            # Code that first makes its input contiguous returns contiguous outputs.
            self._note(variant, found.detail)
        elif found.check == "values" and what == "output" and variant in (self._case.readings or {}):
            self._say_metric(values, variant)
        elif found.check == "values":
            self._say(values, variant, found.detail, found.numbers)
        elif what == "output":
            self._say(found.check, variant, found.detail)
        elif found.check not in {"strides", "aliasing"}:
            self._say(values, variant, f"{found.check}: {found.detail}" if found.detail else "")

    def _why_untested(self, number: int, what: str, found: LeafDifference) -> str:
        """Return why numbers that differ are no fault of a call that the user did not ask for; empty if they are."""
        step = self._case.steps[number]
        if step.mode == AUTOCAST:
            # The same function can be as ill-conditioned as it likes in a format of three digits.
            return "B differs by more than rounding"
        if step.group == FURTHER and step.input in _SHORT_FORMATS and found.is_less_exact:
            # Code that adds one by one in such a format is less exact than code that does not.
            return "B is less exact"
        if step.group == FURTHER and what == "gradients" and self._case.readings:
            return "the metric judges outputs, and gradients differ by more than rounding"
        return ""

    def _differences(self, number: int, what: str, one: Piece, other: Piece) -> list[LeafDifference]:
        arms = (self._case.baseline, self._case.candidate)
        key = (what, *(str(arm.steps[number].piece(what)) for arm in arms))
        if key not in self._known:
            self._known[key] = list(compared(one, other, lambda leaf, runs: self._fit(number, what, leaf, runs)))
        return self._known[key]

    def _fit(self, number: int, what: str, leaf: Leaf, runs: Runs) -> ToleranceFit:
        runs = self._case.with_other_runs(number, what, leaf.number, runs)
        if self._case.steps[number].mode == AUTOCAST and runs.baseline.is_floating_point():
            # One arm may round to bfloat16 where the other does not.
            wide = runs.baseline.double()
            runs.apart = torch.finfo(torch.bfloat16).eps * float(wide.nan_to_num(0, 0, 0).square().mean().sqrt())
        step = self._case.steps[number]
        is_derived = step.group in {"numbers", FURTHER}
        runs.may_overflow = is_derived and _may_overflow(self._case.plan.pieces[step.input])
        found = fit(runs)
        if not found.is_passed and not found.is_settled:
            self._is_settled = False
        return found

    def _judge_mutation(self, number: int, name: str) -> None:
        arms = (self._case.baseline, self._case.candidate)
        one, other = (arm.piece(number, "inputs_after") for arm in arms)
        if one is None and other is None:
            self._say("mutation", name, "")
        elif one is None:
            self._say("mutation", name, "the candidate changes its inputs")
        elif other is None:
            self._say("mutation", name, "the baseline changes its inputs, the candidate does not")
        else:
            self._compare(number, name, "inputs_after", "mutation")

    def _say_metric(self, check: str, variant: str) -> None:
        one, other = (self._case.readings or {})[variant]
        text = f"the metric is {one:.6g} and {other:.6g}, over {self._case.tolerance:.6g} apart"
        is_near = abs(one - other) <= self._case.tolerance
        self._say(check, variant, "" if is_near else text, {"baseline_metric": one, "candidate_metric": other})

    def _judge_process(self) -> None:
        one, other = self._case.baseline.process, self._case.candidate.process
        changed = {*other.end.changed_outputs} - {*one.end.changed_outputs}
        names = ", ".join(self._case.steps[each].name for each in sorted(changed)[:_MOST_TEXTS])
        self._say("earlier-outputs", "all calls", f"what it returned changed later: {names}" if names else "")
        is_one_file = self._case.plan.about["file"] == other.file
        for check, text in side_effects.of_process(one, other, is_one_file=is_one_file):
            self._say(check, "all calls", text)
        if not side_effects.pool_of(one, other):
            idle, own = (_idle(each) for each in (self._case.candidate, self._case.baseline))
            self._say("finished", "all calls", side_effects.idle_text(idle, own))

    def _nondeterministic(self) -> Iterator[UnstableOutput]:
        """Yield outputs in which two runs of the baseline on the same inputs and seeds differ."""
        case = self._case
        plain = [number for number, step in enumerate(case.steps) if step.group == "plain"]
        for number, what in ((number, what) for number in plain for what in ("output", "gradients")):
            one = case.baseline.piece(number, what)
            other = case.again.piece(number, what) if case.again is not None and case.readings is None else one
            if one is None or other is None or one == other:
                continue
            # Not by its float64 run: that of a random baseline would excuse any difference.
            for each in compared(one, other, lambda _, runs: fit(runs)):
                if each.detail and each.check != "strides":
                    yield UnstableOutput(case.steps[number].name, each.check, each.detail)

    def _scales(self) -> _Json:
        """Return the difference of the runs on plain inputs, for each tensor of what a call leaves behind."""
        scales: dict[str, dict[str, float]] = {}
        for number, what, leaf, runs in self._plain_numbers():
            more = self._case.with_other_runs(number, what, leaf, runs)
            others = [runs.candidate]
            if more.reference is not None and more.is_trusted:
                others.append(more.reference)
            gaps = [largest_gap(each, runs.baseline) for each in others]
            known = scales.setdefault(f"{what} {leaf}", {"apart": 0.0})
            known["apart"] = max(known["apart"], *gaps)
        return scales

    def _plain_numbers(self) -> Iterator[tuple[int, str, int, Runs]]:
        case = self._case
        plain = [number for number, step in enumerate(case.steps) if step.group == "plain"]
        for number, what in ((number, what) for number in plain for what in NUMBERS):
            one, other = case.baseline.piece(number, what), case.candidate.piece(number, what)
            if one is None or other is None:
                continue
            try:
                leaves = list(leaves_of(one, other))
            except (BundleError, OtherStructureError):
                continue
            for leaf in leaves:
                if leaf.runs is not None and not _is_whole(leaf.runs.baseline):
                    yield number, what, leaf.number, leaf.runs

    def _say(self, check: str, variant: str, problem: str, numbers: _Json | None = None) -> None:
        is_allowed = check in self._case.allow or variant in self._case.allow
        if problem and is_allowed:
            self._note(variant, f"{check}: {problem}")
        self._checks.append(check_of(check, variant, problem, numbers, is_allowed=is_allowed))

    def _note(self, variant: str, text: str) -> None:
        note = ComparisonNote(variant, text)
        if note not in self._notes:
            self._notes.append(note)


def check_of(
    check: str, variant: str, problem: str, numbers: _Json | None = None, *, is_allowed: bool
) -> EquivalenceCheck:
    """Return a check: passed without a problem, or if the problem is allowed."""
    return EquivalenceCheck(check, variant, not problem or is_allowed, problem or "the same", numbers or None)


def _is_final(check: EquivalenceCheck) -> bool:
    """Return whether a check failed for reasons other than rounding."""
    return not check.is_passed and check.check not in _ROUNDED


def _in_a_row(checks: list[EquivalenceCheck], repeats: set[str]) -> tuple[EquivalenceCheck, ...]:
    """Return the checks with those of consecutive calls merged: the first failed one represents all of them."""
    kept, rows = [], dict[str, list[EquivalenceCheck]]()
    for check in checks:
        if check.variant in repeats:
            rows.setdefault(check.check, []).append(check)
        else:
            kept.append(check)
    for name, row in rows.items():
        failed = [each for each in row if not each.is_passed]
        together = failed[0] if failed else check_of(name, f"{len(row)} calls in a row", "", is_allowed=False)
        kept.append(replace(together, calls=len(row), failed_calls=len(failed)))
    return tuple(kept)


def _is_empty(inputs: Piece) -> bool:
    """Return whether the inputs hold a tensor without elements."""
    return any(0 in tensor.get("shape", ()) for tensor in inputs.tensors)


def _may_overflow(inputs: Piece) -> bool:
    """Return whether numbers are infinite, or so large that products of three are: the order of a sum decides then."""
    views = (each for each in inputs.views() if each is not None and each.numel())
    real = (torch.view_as_real(each) if each.is_complex() else each for each in views)
    return any(
        bool((each.double().abs() > torch.finfo(each.dtype).max ** (1 / 3)).any())
        for each in real
        if each.is_floating_point()
    )


def _is_whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _idle(seen: ObservedRun) -> int:
    watched = [step.work_while_idle_ns or 0 for step in seen.steps.values()]
    return max([seen.process.end.work_while_idle_ns, *watched])
