"""Shared step of playbooks: inspect the code for the topics of the request."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import AssumptionState, InformationGap
from esper_agents.domain.evidence import (
    DOCUMENTS_TOOL,
    INSPECT,
    QUESTION_ANSWERS,
    QUESTION_DETAILS,
    CallOutcome,
    facts_of,
)
from esper_agents.domain.request import Material, Quantity, Wish
from esper_agents.reasoning.hypotheses import Hypothesis
from esper_agents.requests.quantities import named_sizes
from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.grounding.words import terms_of
from esper_agents.review.inspection import ClaimState, fact_queries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.evidence import Evidence, RecordedFact
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.request import ParsedRequest

_SETTLED = {
    ClaimState.CONFIRMED: AssumptionState.CONFIRMED,
    ClaimState.REFUTED: AssumptionState.REFUTED,
}
_WEIGHT = 0.7
# Queries that answer the words of a question: their lines come before.
_OF_QUESTIONS = (QUESTION_ANSWERS, QUESTION_DETAILS)
_MOST_SHOWN = 2
_MOST_CHARACTERS = 4_000
_ANSWERED_BY_DOCUMENTS = frozenset((Wish.FIND_CAUSE, Wish.EXPLAIN, Wish.PLAN))
_MOST_DOCUMENTED = 4
# What an allocation that failed asked for, and the size that a fact states.
_FAILED = re.compile(r"[Tt]ried to allocate (\d+(?:\.\d+)?) ([KMG]iB)")
_SIZE = re.compile(r"\bis (\d+(?:\.\d+)?) ([kMG]B)\b")
_UNITS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_ROUNDING = 0.01
# Topics that the code decides, and no run.
_READ_TOPICS = frozenset(("upgrade", "tests"))


def inspection_calls(brief: Brief, default: Sequence[str] = ()) -> tuple[ToolCall, ...]:
    """Return the call that inspects the code for the topics of the request; none if no query belongs to them.

    A change is judged by what it changes, unless a cause is looked for; a session of version 0.1.0 as it was.

    Args:
        brief: Brief of the task.
        default: Topics of the agent, which a request without a topic that came to it is about.
    """
    request, offered = brief.request, {tool.name for tool in brief.tools}
    if request is None or INSPECT not in offered or not brief.task.paths:
        return ()
    if brief.task.change and request.wish is not Wish.FIND_CAUSE:
        return ()
    # A stack trace with lines of the project says what is asked.
    if Material.TRACE in request.materials and (request.files or not request.symbols):
        return ()
    subject = subject_of(request, brief.task.paths)
    if brief.task.change:
        # The changed files are in question, whatever is named besides.
        subject = replace(subject, symbols=())
    if not subject.topics and subject.wish is not Wish.EXPLAIN and Material.TRACE not in request.materials:
        subject = replace(subject, topics=tuple(default))
    if not any(fact_query.answers(subject) for fact_query in fact_queries()):
        return ()
    arguments = {
        "paths": list(brief.task.paths),
        "topics": list(subject.topics),
        "wish": str(subject.wish),
        "symbols": list(subject.symbols),
        "versions": list(subject.versions),
        "sizes": [f"{words}={value}" for words, value in named_sizes(brief.task.request[:_MOST_CHARACTERS])],
    }
    return (ToolCall(INSPECT, {name: value for name, value in arguments.items() if value}),)


def document_calls(brief: Brief) -> tuple[ToolCall, ...]:
    """Return the call that searches the project's documents for the words of a question; none for other requests."""
    request, offered = brief.request, {tool.name for tool in brief.tools}
    if request is None or DOCUMENTS_TOOL not in offered or brief.task.change or brief.handoff is not None:
        return ()
    if request.wish not in _ANSWERED_BY_DOCUMENTS or Material.TRACE in request.materials:
        return ()
    named = dict.fromkeys(symbol.path for symbol in request.symbols if symbol.path.endswith(".py"))
    arguments = {"text": brief.task.request[:_MOST_CHARACTERS], "paths": list(named)[:_MOST_DOCUMENTED]}
    return (ToolCall(DOCUMENTS_TOOL, {name: value for name, value in arguments.items() if value}),)


def subject_of(request: ParsedRequest, paths: Sequence[str] = ()) -> InspectionSubject:
    """Return what an inspection is asked about by a request; `paths` decide between definitions of one name."""
    here = [each for each in request.ambiguous if each.path in paths]
    symbols = [*request.symbols, *(each for each in here if sum(one.words == each.words for one in here) == 1)]
    versions = [observation.text for observation in request.observations if observation.quantity is Quantity.VERSION]
    return InspectionSubject(
        topics=tuple(topic.name for topic in request.topics),
        wish=request.wish,
        symbols=tuple(f"{symbol.path}:{symbol.name}" for symbol in symbols),
        versions=tuple(dict.fromkeys(versions)),
    )


def is_decided_by_reading(request: ParsedRequest | None) -> bool:
    """Return whether a request is only about topics that no run can decide."""
    topics = {topic.name for topic in request.topics} if request else set()
    return bool(topics) and topics <= _READ_TOPICS


def is_of_other_topics(brief: Brief, measured: Collection[str]) -> bool:
    """Return whether an inspection answers a request and a measurement of certain topics would not.

    Args:
        brief: Brief of the task.
        measured: Topics that the measurement is about; empty for any.
    """
    request = brief.request
    if not measured or request is None or request.wish in {Wish.MEASURE, Wish.COMPARE} or not inspection_calls(brief):
        return False
    return bool(request.topics) and not any(topic.name in measured for topic in request.topics)


def is_of_query(rule: str) -> bool:
    """Return whether a finding's rule is a query: its inspection was made for the request."""
    return any(fact_query.name == rule for fact_query in fact_queries())


def hypotheses_of(reports: Iterable[ToolReport]) -> Iterator[Hypothesis]:
    """Yield the claims of the queries that facts confirm or refute."""
    for evidence in _inspected(report.evidence for report in reports):
        for each in evidence.output["queries"]:
            state = _SETTLED.get(each["state"])
            if each["claim"] and state is not None:
                yield Hypothesis(each["claim"], _WEIGHT, state, (evidence.id,), evidence.rerun)


def gaps_of(reports: Iterable[ToolReport]) -> Iterator[InformationGap]:
    """Yield what code cannot tell about the topics, and queries that failed."""
    for evidence in _inspected(report.evidence for report in reports):
        for each in evidence.output["queries"]:
            if each["facts"] and each["unseen"]:
                yield InformationGap(each["unseen"], "the code does not say it", "")
            if each["problem"]:
                yield InformationGap(f"what the query {each['name']} would have said", each["problem"], evidence.rerun)


def told(evidence: Iterable[Evidence], request: ParsedRequest | None = None) -> str:
    """Return the facts of inspections in one or two sentences, or what they did not find; empty without inspections.

    The lines that decide come first, those about what the request names before others.

    Args:
        evidence: Evidence with the inspections.
        request: The request that the answer is for.
    """
    evidence = tuple(evidence)
    facts = [fact for fact in facts_of(evidence) if fact.query not in _OF_QUESTIONS]
    if not facts:
        return _nothing(evidence)
    facts = _by_names(facts, request)
    if _is_near(_stated_bytes(facts[0].text), _failed_bytes(request)):
        remedy = f" To shrink it, {facts[0].remedy}." if facts[0].remedy else ""
        return f"{facts[0].place} {facts[0].text}: the allocation that failed.{remedy}"
    sentences = []
    for label, assessment in (("Must change", Assessment.MUST_CHANGE), ("To check", Assessment.SHOULD_CHECK)):
        if lines := [fact for fact in facts if fact.assessment == assessment]:
            sentences.append(f"{label}: {_listed(lines)}.")
    fine = [fact for fact in facts if fact.assessment == Assessment.FINE]
    candidates = [fact for fact in facts if fact.assessment == Assessment.OPEN]
    explains = request is None or request.wish is Wish.FIND_CAUSE
    if not sentences and candidates:
        # Without a fault the candidates are the answer.
        sentences.append(f"First to look at: {_listed(candidates)}.")
    elif not sentences and fine:
        lead = (
            "nothing was found that explains it, by checks that are not complete. Fine"
            if explains
            else "checked and fine"
        )
        sentences.append(f"{lead}: {_listed(fine)}.")
    elif not sentences:
        sentences.append(f"{facts[0].place}: {facts[0].text}.")
    if refuted := _refuted(evidence):
        sentences.append(f"Refuted for the code read: {'; '.join(refuted)}.")
    return " ".join(sentences)


def _listed(facts: Sequence[RecordedFact]) -> str:
    """Return the first facts with their places, and the number of the others."""
    shown = "; ".join(f"{each.place} {each.text}" for each in facts[:_MOST_SHOWN])
    return f"{shown} ({len(facts) - _MOST_SHOWN} more)" if len(facts) > _MOST_SHOWN else shown


def _by_names(facts: Sequence[RecordedFact], request: ParsedRequest | None) -> list[RecordedFact]:
    """Return facts with those first that are in a file that defines, or is named like, what the request names."""
    names = [each for each in request.grounded if each.path] if request is not None else []

    def agreement(fact: RecordedFact) -> int:
        path = fact.place.rpartition(":")[0]
        stem = set(terms_of(path.rpartition("/")[2].removesuffix(".py")))
        return sum(each.path == path or set(terms_of(each.name)) <= stem for each in names)

    failed = _failed_bytes(request)
    return sorted(facts, key=lambda fact: (not _is_near(_stated_bytes(fact.text), failed), -agreement(fact)))


def _failed_bytes(request: ParsedRequest | None) -> float:
    """Return the bytes that an error message could not allocate; 0 if it names none."""
    for error in request.errors if request is not None else ():
        if found := _FAILED.search(error.message):
            return float(found[1]) * _UNITS[found[2]]
    return 0.0


def _stated_bytes(text: str) -> float:
    found = _SIZE.search(text)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0


def _is_near(stated: float, failed: float) -> bool:
    """Return whether a stated size is what could not be allocated, as far as its digits tell."""
    return bool(stated and failed) and abs(stated - failed) <= _ROUNDING * failed


def _nothing(evidence: Sequence[Evidence]) -> str:
    """Return the claims that no line supports; empty if no query has one, or one failed."""
    done = list(_inspected(evidence))
    queries = [query for each in done for query in each.output["queries"]]
    claims = list(dict.fromkeys(query["claim"] for query in queries if query["claim"]))
    if not claims or any(query["problem"] for query in queries):
        return ""
    files = max(int(each.output.get("files", 0)) for each in done)
    read = f"the {files} files that were read" if files != 1 else "the file that was read"
    return f"the checks of {read} found nothing, and are not all that can be checked: {'; '.join(claims)}."


def _refuted(evidence: Sequence[Evidence]) -> list[str]:
    queries = [query for each in _inspected(evidence) for query in each.output["queries"]]
    return [query["claim"] for query in queries if query["claim"] and query["state"] == ClaimState.REFUTED]


def _inspected(evidence: Iterable[Evidence]) -> Iterator[Evidence]:
    return (each for each in evidence if each.tool == INSPECT and each.outcome is CallOutcome.COMPLETED)
