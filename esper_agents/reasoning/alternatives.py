"""Comparison of two implementations of one function: inputs, results, time, and the code of both."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.policy.question_type import speed_up_asked
from esper_agents.domain.agent_action import CallTools, Conclude, RiskAssessment, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import INSPECT, CallOutcome
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.request import Wish
from esper_agents.reasoning.code_inspection import subject_of
from esper_agents.reasoning.hypotheses import Hypothesis, ranked, settled
from esper_agents.reasoning.target_choice import looking, missing_package, pair

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.request import ParsedRequest
    from esper_agents.reasoning.static_specialist import ReviewSummary
    from esper_agents.requests.measurement_options import MeasurementRequest

TOPIC = "alternatives"
_SPEED = "speed"
_COMPARE, _SCAFFOLD = "torch-compare", "torch-scaffold"
_ERROR, _REGULAR = "error", "regular inputs"
_MOST_PAIRS, _MOST_DIFFERENCES, _SHORTEST = 3, 2, 3
_LONGEST, _LONGEST_INPUTS = 160, 120
_CALLED = re.compile(r"^`[^`]+` (?:is called|is used|is not called)")
_FILE = re.compile(r"\S+\.py\S*")
# On a few numbers, the cost of a call hides that of its work.
_BATCH = 128
_STRUCTURE = re.compile(r"^output is (.+?) in A and (.+) in B$")
_VALUES = re.compile(r": (\S+) became ([^\s,;]+)")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class AlternativePair:
    """Two definitions of one purpose, as `FILE.py:Name`.

    Attributes:
        baseline: The existing one.
        candidate: The one that may replace it.
    """

    baseline: str
    candidate: str

    @property
    def names(self) -> tuple[str, str]:
        """Both names, with their file as far as that tells them apart."""
        targets = (self.baseline, self.candidate)
        bare, with_file = ([target.rpartition(sign)[2] for target in targets] for sign in (":", "/"))
        one, other = next((each for each in (bare, with_file) if each[0] != each[1]), targets)
        return one, other


@dataclass(frozen=True, slots=True)
class PairComparison:
    """Comparison of a pair by a run.

    Attributes:
        pair: The pair.
        measured: Evidence of the comparison; None if none was possible.
        inputs: Arguments of the calls, as source text.
        is_synthetic: Whether the program chose them.
        problem: Reason why nothing was measured; empty if something was.
    """

    pair: AlternativePair
    measured: Evidence | None
    inputs: str = ""
    is_synthetic: bool = False
    problem: str = ""


def asks_for_choice(brief: Brief) -> bool:
    """Return whether a request asks which of two implementations is better, or for one that is faster.

    Args:
        brief: Brief of the task.
    """
    request, offered = brief.request, {tool.name for tool in brief.tools}
    if request is None or brief.task.change is not None or not {INSPECT, _COMPARE, _SCAFFOLD} <= offered:
        return False
    topics = {topic.name for topic in request.topics}
    return request.wish is Wish.COMPARE or TOPIC in topics or (request.wish is Wish.WRITE and _SPEED in topics)


def find_alternatives(brief: Brief, asked: MeasurementRequest) -> Generator[Move, Any, tuple[AlternativePair, ...]]:
    """Return the pairs to compare, at most three; none if the request asks for no choice, or says what to run.

    Args:
        brief: Brief of the task.
        asked: Parsed request.
    """
    if not asks_for_choice(brief) or brief.request is None or asked.base or asked.inputs or asked.inputs_from:
        return ()
    symbols = list(subject_of(brief.request, brief.task.paths).symbols)
    call = looking(brief, asked)
    given = yield CallTools((replace(call, arguments={**call.arguments, "alternatives": True, "symbols": symbols}),))
    if isinstance(given, Refusal) or given[0].evidence.outcome is not CallOutcome.COMPLETED:
        return ()
    targets = given[0]
    found = [AlternativePair(*each) for each in targets.evidence.output["alternatives"]]
    arms = pair(brief, asked, targets)
    if not isinstance(arms, InformationGap):
        named = [each for each in targets.evidence.output["named"] if len(each["targets"]) == 1]
        has_inputs = not any(each["needs"] for each in named)
        return () if has_inputs else (_in_order(brief, AlternativePair(arms[0].name, arms[1].name), found),)
    return pairs_about(brief.request, brief.task.request, brief.task.paths, found)[:_MOST_PAIRS]


def _in_order(brief: Brief, named: AlternativePair, known: Sequence[AlternativePair]) -> AlternativePair:
    """Return a named pair with the existing implementation first; a claim about one says the order."""
    if speed_up_asked(brief.task.request):
        return named
    both = {named.baseline, named.candidate}
    return next((each for each in known if {each.baseline, each.candidate} == both), named)


def pairs_about(
    request: ParsedRequest, text: str, paths: Sequence[str], pairs: Sequence[AlternativePair]
) -> tuple[AlternativePair, ...]:
    """Return the pairs that a request is about: by its names, else by its words, else by its files.

    Args:
        request: Content of the request.
        text: Its text.
        paths: Files and folders of the task.
        pairs: Pairs in the code.
    """
    symbols = {f"{each.path}:{each.name}" for each in (*request.symbols, *request.ambiguous)}
    if named := [each for each in pairs if symbols & {each.baseline, each.candidate}]:
        both = [each for each in named if symbols >= {each.baseline, each.candidate}]
        return tuple(both or named)
    files = {file.path for file in request.files} or {path for path in paths if path.endswith(".py")}
    inside = [each for each in pairs if _files(each) <= files]
    words = {word.lower() for word in _WORD.findall(_FILE.sub(" ", text)) if len(word) >= _SHORTEST}
    scores = {each: _shared(each, words) for each in inside or pairs}
    most = max(scores.values(), default=0)
    if most:
        return tuple(score for score in scores if scores[score] == most)
    # Without a word for it, a pair is meant only if the request speaks of two things, or of all that is there.
    is_general = len(files) > 1 or request.wish is Wish.WRITE or any(topic.name == TOPIC for topic in request.topics)
    across = [each for each in inside if len(_files(each)) == min(len(files), 2)]
    return tuple(across or inside) if is_general else ()


def _files(pair_: AlternativePair) -> set[str]:
    return {pair_.baseline.rpartition(":")[0], pair_.candidate.rpartition(":")[0]}


def _shared(pair_: AlternativePair, words: set[str]) -> int:
    """Return the number of words of both names that the request has, in the singular or in the plural."""
    pieces = {
        word.lower()
        for each in (pair_.baseline, pair_.candidate)
        for word in _WORD.findall(each.rpartition(":")[2])
        if len(word) >= _SHORTEST
    }
    return sum(any(word in {piece, f"{piece}s", f"{piece}es"} for word in words) for piece in pieces)


def inspections(brief: Brief, pairs: Sequence[AlternativePair]) -> tuple[ToolCall, ...]:
    """Return the calls that state what the code says of each pair, such as its callers."""
    asked = {"paths": list(brief.task.paths), "topics": [TOPIC], "wish": str(Wish.COMPARE)}
    return tuple(ToolCall(INSPECT, {**asked, "symbols": [each.baseline, each.candidate]}) for each in pairs)


def compare_alternatives(
    brief: Brief, asked: MeasurementRequest, seen: ReviewSummary, pairs: Sequence[AlternativePair]
) -> Generator[Move, Any, Conclude]:
    """Compare pairs by runs on inputs that both take, else by what the code says, and conclude.

    Args:
        brief: Brief of the task.
        asked: Parsed request.
        seen: Result of the review, with the inspections of the pairs.
        pairs: Pairs to compare.
    """
    done = []
    for each in pairs:
        done.append((yield from _compared(each, asked)))  # noqa: PERF401 - a comprehension cannot yield
    measured = [each for each in done if each.measured is not None]
    facts = _facts(seen.others)
    parts = [_result(each) if each.measured is not None else _side_by_side(each, facts, seen.mine) for each in done]
    parts += [by_code for each in measured if (by_code := _by_code(each.pair, facts))]
    if synthetic := next((each for each in measured if each.is_synthetic), None):
        shown = f" ({synthetic.inputs})" if synthetic.inputs else ""
        parts.append(f"The program chose the inputs{shown}: at other sizes the ratio can differ.")
    caveats = tuple(
        f"It holds for this machine, these inputs and torch {each.measured.output['torch']}."
        for each in measured[:1]
        if each.measured is not None
    )
    return Conclude(
        summary=" ".join(parts),
        assumptions=ranked(hypothesis for one in measured for hypothesis in _hypotheses(one)),
        gaps=(*(_gap(brief, each) for each in done), *seen.failed),
        caveats=caveats or ("From the code alone: nothing was run.",),
        next_steps=tuple(f"measure again: {each.measured.rerun}" for each in measured if each.measured is not None),
        risks=RiskAssessment("Low", "Easy"),
    )


def _facts(reports: Sequence[ToolReport]) -> list[JsonObject]:
    """Return the facts about pairs of definitions."""
    done = [report.evidence for report in reports if report.evidence.tool == INSPECT and _is_done(report.evidence)]
    return [fact for each in done for query in each.output["queries"] for fact in query["facts"]]


def _compared(pair_: AlternativePair, asked: MeasurementRequest) -> Generator[Move, Any, PairComparison]:
    """Run both on the inputs that a search found for the one or the other."""
    both = (pair_.baseline, pair_.candidate)
    given = yield CallTools(tuple(ToolCall(_SCAFFOLD, {"target": each, "batch": _BATCH}) for each in both))
    if isinstance(given, Refusal):
        return PairComparison(pair_, None, problem=given.reasons[0] if given.reasons else "its search was refused")
    found = [each.evidence for each in given]
    ready = [str(each.output.get("runnable", "")) if _is_done(each) else "" for each in found]
    problem = _unrunnable(both, found, ready)
    # The inputs of one function may suit the other one; a module or a method has to be created as well.
    is_function = all("." not in each.rpartition(":")[2] for each in both) and not any(
        each.output.get("kind") == "module" for each in found
    )
    if not any(ready) or (not is_function and not all(ready)):
        return PairComparison(pair_, None, problem=problem)
    arms = both if is_function else ready
    for evidence, target in zip(found, ready, strict=True):
        if not target:
            continue
        harness = target.removesuffix(":make") if target.endswith(":make") else ""
        inputs_from = {"inputs_from": f"{harness}:get_inputs"} if harness else {}
        mode = {"mode": "training-step"} if asked.train and evidence.output.get("trains") else {}
        sides = {"baseline": arms[0], "candidate": arms[1], **inputs_from, **mode}
        call = ToolCall(_COMPARE, {**sides, "claim": asked.claim or "1", "time_anyway": True})
        reports = yield CallTools((call,))
        if isinstance(reports, Refusal):
            return PairComparison(pair_, None, problem=reports.reasons[0] if reports.reasons else "it was refused")
        done = reports[0].evidence
        if _is_done(done) and done.output["outcome"] != _ERROR:
            return PairComparison(pair_, done, _inputs(evidence), done.output.get("synthetic") is True)
        problem = f"they take no common inputs: {_short(done.summary.rpartition(': error: ')[2] or done.summary)}"
    return PairComparison(pair_, None, problem=problem)


def _is_done(evidence: Evidence) -> bool:
    return evidence.outcome is CallOutcome.COMPLETED


def _unrunnable(both: Sequence[str], found: Sequence[Evidence], ready: Sequence[str]) -> str:
    """Return why a search found no inputs for one of two definitions."""
    for target, evidence, runnable in zip(both, found, ready, strict=True):
        if not runnable:
            reason = str(evidence.output.get("error") or evidence.summary) if _is_done(evidence) else evidence.summary
            if package := missing_package(reason):
                return f"the package '{package}' is not installed where {target} is run"
            return f"no inputs were found for {target}: {_short(reason.removeprefix(f'{target} raised '))}"
    return ""


def _inputs(evidence: Evidence) -> str:
    """Return the arguments of the call, as source text."""
    text = ", ".join(f"{each['name']}={each['text']}" for each in evidence.output["result"].get("call", ()))
    return text if len(text) <= _LONGEST_INPUTS else f"{text[: _LONGEST_INPUTS - 4]} ..."


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."


def _result(done: PairComparison) -> str:
    """Return the result of a comparison in two sentences: time and results, then the advice."""
    output = done.measured.output if done.measured is not None else {}
    differs, kinds = int(output["alternatives"]["different"]), int(output["alternatives"]["inputs"])
    differences = [_with_names(done.pair, str(each)) for each in output["alternatives"]["differences"]]
    lead = _time(done.pair, output)
    if not differences:
        rounding = (
            " up to rounding, as `torch.testing.assert_close` allows it," if output["alternatives"]["close"] else ""
        )
        return f"{lead}, and both return the same{rounding} on {kinds} kinds of input. {_advice(done.pair, output)}"
    # If they differ on every input, the first difference tells what all of them would.
    most = 1 if differs == kinds else _MOST_DIFFERENCES
    shown = "; ".join(_short(difference) for difference in differences[:most])
    more = f"; and {len(differences) - most} more" if len(differences) > most else ""
    count = f"on {differs} of {kinds} kinds of input" if differs else "in their effects"
    return f"{lead}, but they differ {count}: {shown}{more}. {_advice_if_different(done.pair, output)}"


def _speedup(output: JsonObject) -> tuple[float, float, float]:
    """Return the ratio of the times with its bounds; zeros if it was not measured."""
    measured = output["verdict"].get("speedup") or {}
    estimate, lower, upper = (float(measured.get(name, 0)) for name in ("estimate", "lower", "upper"))
    return estimate, lower, upper


def _faster(pair_: AlternativePair, output: JsonObject) -> str:
    """Return the name of the one that is faster for certain; empty if neither is."""
    _, lower, upper = _speedup(output)
    baseline, candidate = pair_.names
    if not lower or lower <= 1 <= upper:
        return ""
    return candidate if lower > 1 else baseline


def _time(pair_: AlternativePair, output: JsonObject) -> str:
    baseline, candidate = pair_.names
    estimate, lower, upper = _speedup(output)
    if not lower:
        return f"The time of `{candidate}` and `{baseline}` was not measured"
    faster = _faster(pair_, output)
    if faster == baseline:
        estimate, lower, upper = 1 / estimate, 1 / upper, 1 / lower
        candidate, baseline = baseline, candidate
    confidence = float(output["verdict"]["speedup"].get("confidence", 0.95))
    basis = f"{confidence:.0%} confidence interval, {output['verdict'].get('replicates', 0)} pairs of processes"
    between = f"({lower:.3g}x to {upper:.3g}x, {basis})"
    if not faster:
        return f"No difference in time between `{candidate}` and `{baseline}` is shown {between}"
    return f"`{candidate}` is {estimate:.3g}x as fast as `{baseline}` {between}"


def _advice(pair_: AlternativePair, output: JsonObject) -> str:
    faster = _faster(pair_, output)
    if not faster:
        return "Neither is better in what was measured: keep the one that is easier to read."
    return f"Keep `{faster}`."


def _advice_if_different(pair_: AlternativePair, output: JsonObject) -> str:
    differences = [str(each) for each in output["alternatives"]["differences"]]
    if any(difference.startswith(f"{_REGULAR}: ") for difference in differences):
        return "Decide which result is right before the time counts."
    faster = _faster(pair_, output)
    if not faster:
        return "On regular inputs both return the same, and neither is faster."
    return f"On regular inputs both return the same: keep `{faster}` if such inputs cannot occur in your data."


def _with_names(pair_: AlternativePair, text: str) -> str:
    """Return a difference with the names of both sides."""
    baseline, candidate = (f"`{name}`" for name in pair_.names)
    kind, _, difference = text.partition(": ")
    shown = (
        (difference.partition(": ")[2] or difference)
        .replace("the candidate", candidate)
        .replace("the baseline", baseline)
    )
    shown = _STRUCTURE.sub(rf"{baseline} returns \1, {candidate} \2", shown)
    shown = _VALUES.sub(rf": \1 of {baseline}, \2 of {candidate}", shown)
    return f"{kind}: {shown}"


def _side_by_side(done: PairComparison, facts: Sequence[JsonObject], findings: Sequence[Finding]) -> str:
    """Return what the code says of both, for a pair that could not be run."""
    sides = []
    for name, target in zip(done.pair.names, (done.pair.baseline, done.pair.candidate), strict=True):
        fact = next((each for each in facts if each["definitions"][-1] == target), None)
        if fact is None:
            continue
        inside = [
            finding
            for finding in findings
            if finding.claim.location.path == fact["path"]
            and fact["line"] <= finding.claim.location.line <= fact["end_line"]
        ]
        lines = number_of(int(fact["end_line"]) - int(fact["line"]) + 1, "line")
        found = ", ".join(
            f"{each.claim.location} {each.claim.message.rstrip('.')}" for each in inside[:_MOST_DIFFERENCES]
        )
        sides.append(
            f"`{name}` has {lines} and {number_of(len(inside), 'finding') + ': ' + found if inside else 'no finding'}"
        )
    baseline, candidate = done.pair.names
    lead = f"`{candidate}` and `{baseline}` were not compared by a run: {done.problem}."
    if by_code := _by_code(done.pair, facts):
        return f"{by_code} {lead}"
    return f"{lead} {'; '.join(sides)}." if sides else lead


def _by_code(pair_: AlternativePair, facts: Sequence[JsonObject]) -> str:
    """Return what the code shows of the one and not of the other; empty if it shows nothing."""
    targets = (pair_.baseline, pair_.candidate)
    # The first facts of a pair say where it is; those about one definition that follow say what it does alone.
    told = [str(fact["text"]) for target in targets for fact in facts if list(fact.get("definitions", ())) == [target]]
    different = [each for each in told if not _CALLED.search(each)]
    return f"By the code, {'; '.join(different)}." if different else ""


def _hypotheses(done: PairComparison) -> Iterator[Hypothesis]:
    evidence = done.measured
    if evidence is None:
        return
    baseline, candidate = done.pair.names
    is_same = not evidence.output["alternatives"]["differences"]
    ids = (evidence.id,)
    yield Hypothesis(f"{candidate} returns what {baseline} returns", 1.0, settled(is_so=is_same), ids, evidence.rerun)
    _, lower, upper = _speedup(evidence.output)
    is_faster = None if not lower or lower <= 1 <= upper else lower > 1
    yield Hypothesis(f"{candidate} is faster than {baseline}", 0.9, settled(is_so=is_faster), ids, evidence.rerun)


def _needs_object(target: str) -> bool:
    """Return whether a target is a class or a method, by its name."""
    name = target.rpartition(":")[2]
    return "." in name or name[:1].isupper()


def _gap(brief: Brief, done: PairComparison) -> InformationGap:
    """Return what a comparison on the user's own inputs would add, or what it needs."""
    command = f"esper torch compare {done.pair.baseline} {done.pair.candidate} --inputs FILE:FUNCTION"
    baseline, candidate = done.pair.names
    if done.measured is not None:
        sides = done.measured.arguments
        command = f"esper torch compare {sides['baseline']} {sides['candidate']} --inputs FILE:FUNCTION"
        return InformationGap("how they compare on your inputs", "their sizes and values decide", command)
    if _needs_object(done.pair.baseline):
        # An object has to be created first, as a script or test of the user does.
        command = f"esper torch scaffold {done.pair.baseline} --capture PATH"
    if package := missing_package(done.problem):
        command = f"{brief.task.command()} # after activating the environment that has {package}"
    return InformationGap(f"whether `{candidate}` and `{baseline}` agree, and which is faster", done.problem, command)
