"""Observations of both arms, as the equivalence check reads them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import torch

from ..results import MissingPart
from .numeric_error import relative_error, typical_gap
from .plan_step import ObservedEnd, ObservedProcess, ObservedStep, PlannedStep
from .pytree_diff import number_at, without
from .tensor_bundle import Bundle, Piece

if TYPE_CHECKING:
    from .tolerance import Runs

_Json = dict[str, Any]
# Half of the digits: a reference further away computes something else.
_HALF = 0.5
# Except if rounding noise moves the baseline by a tenth as much: then the difference is rounding.
_TIMES_SHIFT = 10
OF_PARAMETERS = {"gradients", "state_after"}
# What a call leaves behind that has numbers.
NUMBERS = ("output", "gradients", "state_after", "inputs_after")


@dataclass
class ObservedRun:
    """One run of a plan.

    Attributes:
        bundle: Observations of the run.
        steps: Steps by their number in the plan.
        process: Observations of its process.
        hidden: Parameters without a counterpart in the candidate.
    """

    bundle: Bundle
    steps: dict[int, ObservedStep]
    process: ObservedProcess
    hidden: set[str] = field(default_factory=set)
    _reduced: dict[str, Piece] = field(default_factory=dict)

    def piece(self, step: int, what: str) -> Piece | None:
        """Return the pytree of a step under a name, without hidden parameters; None if there is none."""
        seen = self.steps.get(step)
        name = seen.piece(what) if seen is not None else None
        if name is None or name not in self.bundle.pieces:
            return None
        piece = self.bundle.pieces[name]
        if not self.hidden or what not in OF_PARAMETERS:
            return piece
        if name not in self._reduced:
            self._reduced[name] = reduced(piece, self.hidden)
        return self._reduced[name]


def reduced(piece: Piece, hidden: set[str]) -> Piece:
    """Return a pytree of dicts without the entries of these names."""
    return Piece(without(piece.tree, hidden), piece.tensors, piece.storages, piece.blocks)


@dataclass
class ComparisonObservations:
    """Observations of all runs of a comparison.

    Attributes:
        plan: The plan.
        baseline: Run of the baseline.
        candidate: Run of the candidate.
        again: Second run of the baseline, in another process.
        reference: Run of the baseline in float64; None if it could not run.
        shifted: Runs of the baseline with rounding noise.
        allow: Checks, or variants, whose differences are allowed.
        readings: By variant, the user's metric of both arms, which replaces the numeric tolerance.
        tolerance: Allowed difference of the metric.
        rtol: Stated relative tolerance.
        atol: Stated absolute tolerance.
    """

    plan: Bundle
    baseline: ObservedRun
    candidate: ObservedRun
    again: ObservedRun | None = None
    reference: ObservedRun | None = None
    shifted: list[ObservedRun] = field(default_factory=list)
    allow: frozenset[str] = frozenset()
    readings: dict[str, list[float]] | None = None
    tolerance: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        """Find the steps with a float64 reference, and the references that cannot be trusted."""
        self.steps = planned_steps(self.plan)
        self._same: dict[tuple[str, str | None, str, bool], int] = {}
        for number, step in enumerate(self.steps):
            self._same.setdefault(step.key, number)
        parameters = self.candidate.bundle.about.get("parameters") or {}
        hidden = {*(parameters.get("unmatched") or ()), *(parameters.get("moved") or ())}
        for each in (self.baseline, self.candidate, self.again, self.reference, *self.shifted):
            if each is not None:
                each.hidden = hidden
        self.distrusted = self._find_distrusted()

    def with_other_runs(self, number: int, what: str, leaf: int, runs: Runs) -> Runs:
        """Return the values of a leaf with those of the baseline in float64 and with noise."""
        runs.reference = self._run_of(self.reference, number, what, leaf, runs.baseline)
        found = (self._run_of(each, number, what, leaf, runs.baseline) for each in self.shifted)
        runs.shifted = [each for each in found if each is not None]
        runs.rtol, runs.atol = self.rtol, self.atol
        runs.is_trusted = (what, leaf) not in self.distrusted
        return runs

    def _run_of(
        self, seen: ObservedRun | None, number: int, what: str, leaf: int, like: torch.Tensor
    ) -> torch.Tensor | None:
        if seen is None:
            return None
        piece = seen.piece(number, what) or seen.piece(self._same[self.steps[number].key], what)
        found = number_at(piece, leaf, like if not like.dim() else None) if piece is not None else None
        return found if found is not None and found.shape == like.shape else None

    def _find_distrusted(self) -> set[tuple[str, int]]:
        """Return the leaves whose float64 run computes something else, such as with other random numbers."""
        coarsest = getattr(torch, self.plan.about["coarsest"], torch.float32)
        limit = torch.finfo(coarsest).eps ** _HALF
        found: set[tuple[str, int]] = set()
        plain = [number for number, step in enumerate(self.steps) if step.group == "plain"]
        for number, what in ((number, what) for number in plain for what in NUMBERS):
            piece = self.baseline.piece(number, what) if self.reference is not None else None
            for leaf in range(len(piece.leaves())) if piece is not None else ():
                own = number_at(piece, leaf) if piece is not None else None
                if own is not None and not self._is_like(number, what, leaf, own, limit):
                    found.add((what, leaf))
        return found

    def _is_like(self, number: int, what: str, leaf: int, own: torch.Tensor, limit: float) -> bool:
        """Return whether the float64 run differs from the baseline no more than rounding explains."""
        wide = self._run_of(self.reference, number, what, leaf, own)
        if wide is None:
            return False
        if relative_error(own, wide) <= limit:
            return True
        found = (self._run_of(each, number, what, leaf, own) for each in self.shifted)
        gaps = [typical_gap(own, each) for each in found if each is not None]
        return bool(gaps) and typical_gap(own, wide) <= _TIMES_SHIFT * max(gaps)

    def missing(self) -> list[MissingPart]:
        """Return the checks that could not be made, with the reasons."""
        missing = [MissingPart(**each) for each in self.plan.about["missing"]]
        if self.reference is None:
            missing.append(MissingPart("float64 reference", "the baseline could not be run in float64"))
        for number, step in enumerate(self.steps):
            wide = self.reference.steps.get(number) if self.reference is not None else None
            if wide is not None and wide.raised is not None and step.is_distinct:
                why = f"the baseline raises {wide.raised.type} in float64: {wide.raised.message}"
                missing.append(MissingPart(f"float64 reference of {step.name}", why))
        if self.distrusted:
            what = ", ".join(sorted({each for each, _ in self.distrusted}))
            why = "it differs from the baseline by more than rounding"
            missing.append(MissingPart(f"float64 reference of {what}", why))
        unmatched = (self.candidate.bundle.about.get("parameters") or {}).get("unmatched")
        why = f"it has no place for {', '.join(unmatched[:3])}" if unmatched else "it has no parameters that are known"
        not_run = [step.name for number, step in enumerate(self.steps) if number not in self.candidate.steps]
        return missing + [MissingPart(f"the candidate with {each}", why) for each in not_run]


def planned_steps(plan: Bundle) -> list[PlannedStep]:
    """Return the steps of a plan."""
    return [PlannedStep(**each) for each in plan.about["steps"]]


def observed_run(bundle: Bundle) -> ObservedRun:
    """Return the run that a bundle holds."""
    steps = {int(number): ObservedStep.read(step) for number, step in bundle.about["steps"].items()}
    return ObservedRun(bundle, steps, process_of(bundle))


def process_of(bundle: Bundle) -> ObservedProcess:
    """Return the observations of a process that a bundle holds."""
    own = {each.name: bundle.about[each.name] for each in fields(ObservedProcess) if each.name in bundle.about}
    return ObservedProcess(**{**own, "end": ObservedEnd(**own["end"])})


def read_case(request: _Json) -> ComparisonObservations:
    """Return the observations whose bundles a request names.

    Args:
        request: `files`: descriptors, with their `roles`; `allow`; `readings` and `tolerance` of a metric;
            `rtol`; `atol`.

    Raises:
        BundleError: One of the files is not a bundle.
    """
    plan: Bundle | None = None
    seen: dict[str, list[ObservedRun]] = {}
    for role, descriptor in zip(request["roles"], request["files"], strict=True):
        bundle = Bundle(descriptor)
        if role == "plan":
            plan = bundle
        else:
            seen.setdefault(role, []).append(observed_run(bundle))
    if plan is None:
        raise KeyError("plan")
    return ComparisonObservations(
        plan,
        seen["baseline"][0],
        seen["candidate"][0],
        again=next(iter(seen.get("again", ())), None),
        reference=next(iter(seen.get("reference", ())), None),
        shifted=seen.get("shifted", []),
        allow=frozenset(request.get("allow") or ()),
        readings=request.get("readings"),
        tolerance=float(request.get("tolerance") or 0.0),
        rtol=float(request.get("rtol") or 0.0),
        atol=float(request.get("atol") or 0.0),
    )
