"""Choose the target of a task: named by the user, runnable harness, or a question."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.domain.agent_action import Ask, CallTools, ToolCall, UserAnswer
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import OBSERVES_CALLS, CallOutcome, own_harness
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.request import Quantity
from esper_agents.requests.written_calls import calls_of, written_shape
from esper_agents.review.grounding.words import terms_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence
    from collections.abc import Set as AbstractSet

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief
    from esper_agents.requests.measurement_options import MeasurementRequest

NONE_OF_THEM = "none of these: only read the code"
# A step covers most of a run; compilation and export apply to a module or a function.
WHOLE_FIRST = ("step", "module", "function")
GRAPH_FIRST = ("module", "function", "step")
# As `_with_inputs` ends a request; the next one replaces it.
_RUN_WITH = re.compile(r"\? Run \S+ with .*\Z", re.DOTALL)
SYNTHETIC = "arguments made by the program (synthetic)"
_SCAFFOLD = "torch-scaffold"
# Their targets may be smaller than what a measurement needs.
_PREPARING = (_SCAFFOLD, OBSERVES_CALLS)
_MOST_OPTIONS = 12
# Topics whose measurements depend on the sizes of the inputs.
_OF_SIZE = frozenset(("memory", "memory growth", "speed", "idle device"))
_MOST_CHARACTERS, _MOST_WORDS, _SHORTEST = 4_000, 60, 3
_LONGEST_PROBLEM = 160
_LEAST_SHARE = 1 / 3
# A tensor was computed; a function that returns something else computes if its name says that it trains or runs.
_COMPUTED = re.compile(r"\bTensor")
_RUNS = re.compile(
    r"(?:^|_)(?:train\w*|fit|run|step|epoch|main|update|evaluate|forward|backward)(?:_|$)", re.IGNORECASE
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PACKAGE = re.compile(r"No module named '(\w+)|the package '(\w+)'")
_MOST_SCAFFOLDED = 5
# Beginning of what a target needs if inputs are all that it needs.
_INPUTS = "inputs: "


@dataclass(frozen=True, slots=True)
class ChosenTarget:
    """Target to run.

    Attributes:
        name: `FILE.py:NAME`.
        kind: `module`, `function`, `step`, or empty if static analysis does not determine it.
        inputs: Inputs given by the user.
        inputs_from: `FILE:FUNCTION` that creates them, or empty.
        because: Reason for this choice.
        definition: `FILE.py:NAME` of the code that a harness made by the program runs; empty without one.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    inputs_from: str
    because: str
    definition: str = ""

    @property
    def shown(self) -> str:
        """The code that is run, for people: without the path of a harness."""
        return self.definition or self.name

    @property
    def ran(self) -> str:
        """The code that is run, and why or with what."""
        return f"{self.definition} with {SYNTHETIC}" if self.definition else f"{self.name} ({self.because})"

    @property
    def arguments(self) -> dict[str, Any]:
        """Target and inputs as tool arguments."""
        return {"target": self.name, "inputs": list(self.inputs), "inputs_from": self.inputs_from}


Choice: TypeAlias = ChosenTarget | InformationGap


def looking(brief: Brief, asked: MeasurementRequest) -> ToolCall:
    """Return the call that finds runnable targets."""
    given = {"paths": list(brief.task.paths), "named": list(asked.named), "inputs": list(asked.inputs)}
    about = _about(brief)
    return ToolCall("torch-targets", {**given, "about": about} if about else given)


def _about(brief: Brief) -> list[str]:
    """Return what the request is about: words, files and definitions; empty for sessions of version 0.1.0."""
    request = brief.request
    if request is None:
        return []
    words = (word.lower() for word in _WORD.findall(brief.task.request[:_MOST_CHARACTERS]))
    known = dict.fromkeys(word for word in words if len(word) >= _SHORTEST)
    files = dict.fromkeys(file.path for file in request.files)
    symbols = dict.fromkeys(f"{symbol.path}:{symbol.name.partition('.')[0]}" for symbol in request.symbols)
    return [*symbols, *files, *list(known)[:_MOST_WORDS]]


def choose(
    brief: Brief, asked: MeasurementRequest, found: ToolReport, kinds: Sequence[str]
) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    """Return the target of the task; ask the user if there are several, and return a gap if there is none.

    Args:
        brief: Brief of the task.
        asked: Parsed request.
        found: Report of `torch-targets`.
        kinds: Target kinds, the preferred ones first.
    """
    if known := _measured_before(brief):
        return known
    if found.evidence.outcome is not CallOutcome.COMPLETED:
        return _gap(brief, found.evidence.summary)
    output = found.evidence.output
    named = [each for each in output["named"] if each["targets"]]
    if named:
        one = named[0]
        if one["needs"] and not (asked.inputs or asked.inputs_from):
            missing = [{"target": each, "kind": one["kind"], "needs": one["needs"]} for each in one["targets"]]
            return (yield from _scaffolded(brief, missing))
        return (yield from _among(brief, asked, one["targets"], kind=one["kind"], because="you named it"))
    ready = _asked_about(brief, output["runnable"])
    for kind in kinds:
        of_kind = [each for each in ready if each["kind"] == kind]
        outermost = _outermost(of_kind)
        if outermost:
            targets = [str(each["target"]) for each in _most_relevant(outermost)]
            because = f"it is the only {kind} that can be run without asking and that no other one uses"
            if len(targets) < len(outermost):
                because = f"of {len(outermost)} that can be run without asking, it fits the words of the request best"
            return (yield from _among(brief, asked, targets, kind=kind, because=because))
    return (yield from _scaffolded(brief, _by_relevance(brief, output["missing"], kinds)))


def definition_target(
    brief: Brief, found: ToolReport, wanted: Sequence[str]
) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    """Return the first of certain definitions that runs, with arguments of its file or made by the program.

    Args:
        brief: Brief of the task.
        found: Report of `torch-targets`.
        wanted: Definitions as `FILE.py:NAME`, the preferred one first.
    """
    if found.evidence.outcome is not CallOutcome.COMPLETED:
        return _gap(brief, found.evidence.summary)
    output = found.evidence.output
    known = {str(each["target"]): each for each in (*output["missing"], *output["runnable"])}
    ready = {str(each["target"]) for each in output["runnable"]}
    for each in wanted:
        if each in ready:
            return ChosenTarget(each, str(known[each]["kind"]), (), "", "it needs no arguments")
        if each in known:
            return (yield from _first_scaffolded(brief, [known[each]], has_batch=False))
    return _gap(brief, "a definition that computes")


def stated_arguments(brief: Brief, target: str) -> dict[str, str]:
    """Return the arguments and the shape that a request writes for a definition, as arguments of `torch-scaffold`."""
    text = brief.task.request[:_MOST_CHARACTERS]
    make, call = calls_of(target.rpartition(":")[2].partition(".")[0], text)
    stated = {"make": make, "call": call, "shape": written_shape(text)}
    return {name: given for name, given in stated.items() if given.strip(" .,")}


def _stated_batch(brief: Brief) -> dict[str, int]:
    """Return the batch size that a request about memory or speed names, as an argument of `torch-scaffold`."""
    request = brief.request
    seen = request.observed(Quantity.BATCH_SIZE) if request else None
    is_of_size = request is not None and any(topic.name in _OF_SIZE for topic in request.topics)
    return {"batch": int(seen.value)} if seen and seen.value and is_of_size else {}


def pair(
    brief: Brief, asked: MeasurementRequest, found: ToolReport
) -> tuple[ChosenTarget, ChosenTarget] | InformationGap:
    """Return baseline and candidate, both named by the user; a gap if they are not."""
    if found.evidence.outcome is not CallOutcome.COMPLETED:
        return _gap(brief, found.evidence.summary)
    named = [each for each in found.evidence.output["named"] if len(each["targets"]) == 1]
    if len(named) < 2:  # noqa: PLR2004 - a comparison has two sides
        return _gap(brief, "two targets, or one and the revision to compare it with")
    one, other = (_target(asked, each["targets"][0], each["kind"], "you named it") for each in named[:2])
    return (other, one) if asked.candidate_first else (one, other)


def _measured_before(brief: Brief) -> ChosenTarget | None:
    """Return the target that the session has measured already, so that the user is not asked again."""
    for each in reversed(brief.evidence):
        known = each.arguments
        if (
            each.tool.startswith("torch-")
            and each.tool not in _PREPARING
            and each.outcome is CallOutcome.COMPLETED
            and "target" in known
        ):
            kind = str(each.output.get("kind", ""))
            inputs, source = tuple(known.get("inputs") or ()), str(known.get("inputs_from") or "")
            because = f"it was measured before{f', with {SYNTHETIC}' if each.output.get('synthetic') else ''}"
            return ChosenTarget(str(known["target"]), kind, inputs, source, because)
    return None


def _among(
    brief: Brief,
    asked: MeasurementRequest,
    targets: Sequence[str],
    *,
    kind: str,
    because: str,
) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    if len(targets) == 1:
        return _target(asked, targets[0], kind, because)
    options = (*targets[:_MOST_OPTIONS], NONE_OF_THEM)
    answer = yield Ask(f"{brief.agent.name} can run one of these to measure it; which one is meant?", options)
    if not isinstance(answer, UserAnswer) or answer.text not in targets:
        return _gap(brief, "which of several targets is meant")
    return _target(asked, answer.text, kind, f"{answer.by} chose it")


def _by_relevance(brief: Brief, missing: Sequence[JsonObject], kinds: Sequence[str]) -> list[JsonObject]:
    """Return targets that need arguments, those first that the request is about, then by kind."""
    request = brief.request
    symbols = {(symbol.path, symbol.name.partition(".")[0]) for symbol in request.symbols} if request else set()
    files = {file.path for file in request.files} if request else set()

    def rank(entry: JsonObject) -> tuple[bool, bool, float, int]:
        path, _, name = str(entry["target"]).rpartition(":")
        kind = kinds.index(entry["kind"]) if entry["kind"] in kinds else len(kinds)
        return (path, name) not in symbols, path not in files, -_relevance(entry), kind

    return sorted(missing, key=rank)


def _relevance(entry: JsonObject) -> float:
    return float(entry.get("relevance", 0))


def _most_relevant(candidates: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """Return the target that fits the words of the request better than all others; all of them if none does."""
    ranked = sorted(candidates, key=_relevance, reverse=True)
    is_clear = len(ranked) > 1 and _relevance(ranked[0]) > _relevance(ranked[1])
    return ranked[:1] if is_clear else candidates


def _scaffolded(brief: Brief, missing: Sequence[JsonObject]) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    """Return the first target for which arguments were found; a gap if there is none."""
    if _SCAFFOLD not in {tool.name for tool in brief.tools}:
        return _unrunnable(brief, missing)
    return (yield from _first_scaffolded(brief, _asked_about(brief, missing)))


def _first_scaffolded(
    brief: Brief, missing: Sequence[JsonObject], *, has_batch: bool = True
) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    tried: list[str] = []
    for each in missing[:_MOST_SCAFFOLDED]:
        target = str(each["target"])
        given: Any = ()
        given_sizes = {**(_stated_batch(brief) if has_batch else {}), **stated_arguments(brief, target)}
        for stated in dict.fromkeys((tuple(given_sizes.items()), ())):
            # The code itself is of use, too, if it does not run as the request writes it.
            given = yield CallTools((ToolCall(_SCAFFOLD, {"target": target, **dict(stated)}),))
            if isinstance(given, Refusal) or given[0].evidence.output.get("runnable"):
                break
        if isinstance(given, Refusal):
            break
        evidence = given[0].evidence
        runnable = str(evidence.output.get("runnable", "")) if evidence.outcome is CallOutcome.COMPLETED else ""
        output = str(evidence.output.get("result", {}).get("output", ""))
        if runnable and output and not _is_computation(target, output):
            tried.append(f"{target}: it returns {output[:_LONGEST_PROBLEM]}, so that it is not the code to measure")
            continue
        if runnable:
            kind = str(each["kind"]) if evidence.output.get("trains") else "step"
            is_synthetic = bool(evidence.output.get("synthetic"))
            own = f"{target} by the project's own harness, which is not checked"
            runs = own if own_harness(evidence) else f"{target} runs with it"
            because = f"{target} with {SYNTHETIC}" if is_synthetic else runs
            return ChosenTarget(runnable, kind, (), "", because, target if is_synthetic else "")
        problem = str(evidence.output.get("error") or evidence.summary).removeprefix(f"{target} raised ")
        tried.append(f"{target}: {problem[:_LONGEST_PROBLEM]}")
        if package := missing_package(problem):
            return _uninstalled(brief, target, package)
    return _untried(brief, missing, tried) if tried else _unrunnable(brief, missing)


def _asked_about(brief: Brief, missing: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the targets that the request is about: a measurement of others would answer another question."""
    request = brief.request
    if request and request.symbols and any("relevance" in each for each in missing):
        files = {symbol.path for symbol in request.symbols}
        named = {f"{each.path}:{each.name.partition('.')[0]}" for each in (*request.symbols, *request.related)}
        missing = [each for each in missing if each["target"] in named or each["target"].rpartition(":")[0] in files]
    elif request and (files := {each.path for each in request.grounded if each.path}):
        text = brief.task.request[:_MOST_CHARACTERS]
        words = {text.lower()} | {term for word in _WORD.findall(text) for term in terms_of(word)}
        missing = [each for each in missing if _is_meant(str(each["target"]), files, words)]
    least = max(map(_relevance, missing), default=0.0) * _LEAST_SHARE
    return [each for each in missing if _relevance(each) >= least]


def _is_meant(target: str, files: Collection[str], words: AbstractSet[str]) -> bool:
    """Return whether a target is in a file that defines what words of the request mean, or is itself in its words."""
    path, _, name = target.rpartition(":")
    return path in files or bool(set(terms_of(name)) & words) or any(name.lower() in word for word in words)


def _is_computation(target: str, output: str) -> bool:
    """Return whether a call that returned such a result may be the code to measure."""
    return bool(_COMPUTED.search(output) or _RUNS.search(target.rpartition(":")[2]))


def missing_package(problem: str) -> str:
    """Return the package that an error says is not installed; empty if it says something else."""
    found = _PACKAGE.search(problem)
    return (found.group(1) or found.group(2)) if found else ""


def _untried(brief: Brief, missing: Sequence[JsonObject], tried: Sequence[str]) -> InformationGap:
    """Return the gap after searches without a result, with the reason for each target."""
    number = "1 target" if len(tried) == 1 else f"{len(tried)} targets"
    target, needed = str(missing[0]["target"]), str(missing[0]["needs"][0])
    what = f"arguments for {number}, searched without a result: {'; '.join(tried)}"
    return _gap(brief, what, _with_inputs(brief, target, needed))


def _uninstalled(brief: Brief, target: str, package: str) -> InformationGap:
    gap = _gap(brief, f"the package {package!r}, which {target} imports and the measuring interpreter does not have")
    again = f"{brief.task.command(agent=brief.agent.name)} # after activating the environment that has {package}"
    return replace(gap, command=again)


def _target(asked: MeasurementRequest, name: str, kind: str, because: str) -> ChosenTarget:
    return ChosenTarget(name, kind, asked.inputs, asked.inputs_from, because)


def _outermost(candidates: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the targets that no other one uses; all of them if they use one another in a cycle."""
    used = {name for candidate in candidates for name in candidate["uses"]}
    return [candidate for candidate in candidates if candidate["target"] not in used] or list(candidates)


def _unrunnable(brief: Brief, missing: Sequence[JsonObject]) -> InformationGap:
    """Return the gap if nothing runs without inputs: the largest target that needs only those, with its command."""
    open_ones = [each for each in missing if str(each["needs"][0]).startswith(_INPUTS)]
    if not open_ones:
        factory = "a function without arguments that returns the module or the training step"
        again = f"{brief.task.command(agent=brief.agent.name)} # after adding {factory}"
        return replace(_gap(brief, factory), command=again)
    # Classes are named in capitals; a module is more likely meant than a helper function.
    largest = max(open_ones, key=lambda each: str(each["target"]).rpartition(":")[2][:1].isupper())
    more = len(open_ones) - 1
    others = ("; so does 1 other" if more == 1 else f"; so do {more} others") if more else ""
    target, needed = str(largest["target"]), str(largest["needs"][0])
    return _gap(brief, f"{target} needs {needed}{others}", _with_inputs(brief, target, needed))


def _with_inputs(brief: Brief, target: str, needed: str) -> str:
    """Return the request with the inputs as a placeholder; empty if more than inputs is needed."""
    asked = _RUN_WITH.sub("", brief.task.request).rstrip(".?! ")
    request = f"{asked}? Run {target} with INPUTS"
    return request if needed.startswith(_INPUTS) else ""


def _gap(brief: Brief, what: str, request: str = "") -> InformationGap:
    """Return the information gap with the command line that would close it."""
    return InformationGap(
        what=f"what to run: {what}",
        why="nothing was measured without it",
        command=brief.task.command(agent=brief.agent.name, request=request) if request else "",
    )
