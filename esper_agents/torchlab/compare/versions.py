"""Compare the versions of a definition before and after a change by running them on the same inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab.compare.correctness import CheckLimits, Correctness
from esper_agents.torchlab.compare.input_kinds import compared_inputs
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.harness import harness_text, optimizer_plan
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.scaffold.result import HarnessArgument
from esper_agents.torchlab.worker.watch.result import WatchResult
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from esper_agents.torchlab.harness import HarnessPlan
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell

_SEED = 240_764_524
_ALLOWED = ("strides", "waiting")
_HARNESS = "versions_harness.py"
_MOST_TEXT, _MOST_DIFFERENCES = 300, 4
# Seconds for the search for arguments, and for trying inputs beyond the regular ones.
_SEARCH_S, _MOST_RUNS, _BUDGET_S = 6, 30, 2.0
_LEAST_S, _LONGEST_RUN_S = 1.0, 10.0
_WATCHED_CALLS = 2
# With two rows, code that compares rows often has nothing to compare.
_BATCH = 16


class VersionOutcome(StrEnum):
    """Result of a comparison of two versions."""

    SAME = "same"
    CLOSE = "same up to rounding"
    EXTREME = "differs on extreme inputs"
    DIFFERENT = "differs"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Definition that a change edits.

    Attributes:
        before: Target before the change, as `FILE.py:NAME`.
        after: Target after it.
        lines_before: First and last lines, before the change, one of which must run for a comparison to count.
        lines: The same after the change.
        optional: Arguments of the constructor of an optimizer, by name, as source text; None for anything else.
        fallback: Targets before and after the change that may run it too, such as the class of a method; None if there
            is none.
    """

    before: str
    after: str
    lines_before: tuple[tuple[int, int], ...]
    lines: tuple[tuple[int, int], ...]
    fallback: tuple[str, str] | None = None
    optional: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Comparison of two versions of one definition.

    Attributes:
        target: The definition, after the change.
        ran: Target that was run: the definition, or its class.
        outcome: The result.
        inputs: Number of kinds of input.
        differences: The first differences by kind of input, in words.
        arguments: Arguments of the constructor and of the call, as source text.
        is_synthetic: Whether the program chose them.
        problem: Reason why nothing was compared; empty if something was.
        parameters: Parameters of the old version without a counterpart in the new one.
    """

    target: str
    ran: str
    outcome: VersionOutcome
    inputs: int = 0
    differences: tuple[str, ...] = ()
    arguments: str = ""
    is_synthetic: bool = True
    problem: str = ""
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the result in one clause."""
        name = self.target.rpartition(":")[2]
        through = f" (run by `{self.ran.rpartition(':')[2]}`)" if self.ran != self.target else ""
        kinds = number_of(self.inputs, "kind of input", "kinds of input")
        # Of the tensors of an output, the first one is enough.
        first = self.differences[0].partition("; ")[0] if self.differences else ""
        match self.outcome:
            case VersionOutcome.SAME:
                return f"`{name}`{through} does the same before and after the change on {kinds}"
            case VersionOutcome.CLOSE:
                return f"`{name}`{through} gives the same up to rounding before and after the change on {kinds}"
            case VersionOutcome.EXTREME:
                return f"`{name}`{through} gives other results after the change only {first}"
            case VersionOutcome.DIFFERENT:
                return f"`{name}`{through} gives other results after the change {first}"
            case VersionOutcome.NOT_COMPARED:
                return f"`{name}` was not compared by running: {self.problem}"


@dataclass(slots=True)
class VersionRuns:
    """Comparisons of the definitions of a change, within a time limit.

    Attributes:
        lab: Lab, opened with the old tree as a further readable folder.
        base: The old tree.
        scratch: Folder outside of both trees, which the lab can read, for the harnesses of both versions. Those of the
            project belong to the change: one of them could run anything instead of the definition.
        seconds: Time after which no comparison begins; one that began is finished, each of its runs within ten seconds.
        tell: Progress callback.
    """

    lab: Lab
    base: Path
    scratch: Path
    seconds: float
    tell: Tell | None = None
    _begun: float = field(default_factory=time.monotonic)

    def compare(self, pairs: Sequence[VersionPair]) -> Iterator[VersionComparison]:
        """Yield the comparison of each pair, in order.

        Args:
            pairs: Definitions that the change edits.
        """
        for pair in pairs:
            if self._left_s <= _LEAST_S:
                yield _not_compared(pair, f"the {self.seconds:g} seconds for comparisons were over")
                continue
            first = self._compared(pair, pair.before, pair.after)
            if first.outcome is VersionOutcome.NOT_COMPARED and pair.fallback and self._left_s > _LEAST_S:
                second = self._compared(pair, *pair.fallback)
                first = first if second.outcome is VersionOutcome.NOT_COMPARED else second
            yield first

    @property
    def _left_s(self) -> float:
        return self.seconds - (time.monotonic() - self._begun)

    def _compared(self, pair: VersionPair, before: str, after: str) -> VersionComparison:
        """Return the comparison by a run of one target; what both versions cannot run is not compared."""
        try:
            found = self._prepared(pair, before, after)
            if isinstance(found, str):
                return _not_compared(pair, found)
            return self._judged(pair, after, found)
        except (EvidenceError, UsageError) as error:
            return _not_compared(pair, self._shown(error.problem, before, after))

    def _prepared(self, pair: VersionPair, before: str, after: str) -> _Prepared | str:
        """Return how to run both versions; the reason in words if no arguments were found.

        Raises:
            EvidenceError: The search failed.
            UsageError: The old version cannot be called with any arguments.
        """
        from esper_agents.torchlab.measurements.scaffold import (
            ScaffoldOptions,
            explained_search,
            find_arguments,
            harness_plan,
        )

        if pair.optional is not None:
            # Optimizers import torch's compiler on first use, in each process unless the fork server has it.
            self.lab.warm("observe")
        # What the old version accepts is what its callers pass.
        options = ScaffoldOptions(runs=_MOST_RUNS, seconds=_SEARCH_S, batch=_BATCH)
        found = find_arguments(self.lab, self.base, TargetSpec(before), options, self.tell)
        if found.ended == "direct":
            return _Prepared(before, after, "", is_synthetic=False)
        if found.ended != "found":
            said = explained_search(found)
            return f"no arguments were found ({_short(said.error or said.headline)})"
        plan = harness_plan(found)
        if pair.optional is not None:
            further = [HarnessArgument(name, text) for name, text in pair.optional]
            stepping = optimizer_plan(plan, further)
            if stepping is None:
                return "its constructor takes no list of tensors"
            plan = stepping
        qualname = after.rpartition(":")[2].removesuffix(".step" if pair.optional is not None else "")
        own = replace(plan, target=after, qualname=qualname, module=_module(plan.module, before, after))
        runnable = self._written("before", plan, self.base), self._written("after", own, self.lab.project)
        # New processes may read the files that existed at the last refresh.
        self.lab.begin_measurement()
        arguments = ", ".join(f"{each.name}={each.text}" for each in (*plan.make, *plan.call))
        return _Prepared(*runnable, _short(arguments), is_synthetic=True, trains=found.trains)

    def _written(self, side: str, plan: HarnessPlan, root: Path) -> str:
        """Write the harness of one version; return its target."""
        file = self.scratch / side / _HARNESS
        file.parent.mkdir(exist_ok=True)
        file.write_text(harness_text(plan, root), encoding="utf-8")
        return f"{file}:make"

    def _shown(self, text: str, before: str, after: str) -> str:
        """Return a text with the definitions for their harnesses, which the reader does not have."""
        for side, target in (("before", before), ("after", after)):
            file = str(self.scratch / side / _HARNESS)
            text = text.replace(f"{file}:make", target).replace(file, "the harness")
        return text

    def _judged(self, pair: VersionPair, after: str, found: _Prepared) -> VersionComparison:
        """Return the comparison of both versions on the same inputs, parameters and seeds.

        Raises:
            EvidenceError: The old version failed.
            UsageError: Its inputs cannot be used, or it is not deterministic.
        """
        old = self._executed(found.before, self.base, pair.before, pair.lines_before)
        new = self._executed(found.after, self.lab.project, pair.after, pair.lines)
        # An exception that keeps the new version from its lines is a difference, which the comparison states.
        if not old.is_any or not (new.is_any or new.has_raised):
            side = "new" if old.is_any else "old"
            with_arguments = f"with the arguments found ({found.arguments})" if found.arguments else "without arguments"
            return _not_compared(
                pair, f"a call {with_arguments} executes none of the changed lines of the {side} version"
            )
        arms = (
            Arm(TargetSpec(found.before, seed=_SEED), self.base),
            Arm(TargetSpec(found.after, seed=_SEED), self.lab.project),
        )
        with Correctness(
            self.lab,
            arms,
            seed=_SEED,
            train=found.trains,
            allow=_ALLOWED,
            limits=CheckLimits(_BUDGET_S, _LONGEST_RUN_S),
        ) as correctness:
            checks = correctness.checks(self.tell or self.lab.tell)
            parameters = correctness.notes.parameters
        compared = compared_inputs(checks)
        lost = tuple(parameters.unmatched) if parameters is not None else ()
        outcome = VersionOutcome.SAME
        if compared.differences:
            outcome = VersionOutcome.EXTREME if compared.is_extreme_only else VersionOutcome.DIFFERENT
        elif compared.close:
            outcome = VersionOutcome.CLOSE
        if outcome in {VersionOutcome.SAME, VersionOutcome.CLOSE} and not new.is_any:
            return _not_compared(pair, "the new version raises an exception before it executes a changed line")
        before = pair.fallback[0] if pair.fallback and after != pair.after else pair.before
        return VersionComparison(
            pair.after,
            after,
            outcome,
            len(compared.kinds),
            tuple(self._shown(each, before, after) for each in _in_order(compared.differences)),
            found.arguments,
            found.is_synthetic,
            parameters=lost,
        )

    def _executed(self, runnable: str, root: Path, target: str, lines: Sequence[tuple[int, int]]) -> _Execution:
        """Return whether making and calling one version executes any of these lines of its definition."""
        spec = TargetSpec(runnable, seed=_SEED)
        request = {
            "target": spec.request(),
            "lines": {target.rpartition(":")[0]: [list(each) for each in lines]},
            "calls": _WATCHED_CALLS,
            "train": False,
            "seed": _SEED,
            "root": str(root),
        }
        self.lab.warm("watch")
        with self.lab.worker(root=root, device="cpu", label="candidate") as worker:
            try:
                seen = worker.ask("watch", request, timeout_s=_LONGEST_RUN_S, name=runnable).read(WatchResult)
            except (UsageError, WorkerError):
                return _Execution(is_any=False, has_raised=True)
        return _Execution(any(line.times for line in seen.lines), seen.raised is not None)


@dataclass(frozen=True, slots=True)
class _Execution:
    """Whether a run executed any of the lines, and whether it raised an exception or could not be made."""

    is_any: bool
    has_raised: bool


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Targets that run both versions."""

    before: str
    after: str
    arguments: str
    is_synthetic: bool
    trains: bool = False


def _module(module: str, before: str, after: str) -> str:
    """Return the import name of a module after its file was moved."""
    old, new = (each.rpartition(":")[0].removesuffix(".py").replace("/", ".") for each in (before, after))
    return module if old == new else new.removeprefix(old.removesuffix(module))


def _in_order(differences: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences, those on regular inputs first."""
    ordered = sorted(differences.items(), key=lambda each: each[0] != "regular inputs")
    for kind, text in ordered[:_MOST_DIFFERENCES]:
        yield f"on {kind}: {_short(text.removeprefix('values: '))}"


def _not_compared(pair: VersionPair, problem: str) -> VersionComparison:
    return VersionComparison(pair.after, pair.after, VersionOutcome.NOT_COMPARED, problem=_short(problem))


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _MOST_TEXT else f"{line[: _MOST_TEXT - 4]} ..."
