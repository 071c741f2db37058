"""Answer to a question about what code does, by the lines that its words refer to."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, RiskAssessment, ToolCall, ToolReport
from esper_agents.domain.evidence import INSPECT, QUESTION_ANSWERS, CallOutcome, facts_of, is_measurement
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.request import Material, Wish
from esper_agents.domain.status import QuestionType
from esper_agents.reasoning.behaviour_answer import ObservedAnswer, observed_answer
from esper_agents.requests.run_requests import asks_to_run_tests
from esper_agents.review.fact_query import Assessment
from esper_agents.review.grounding.given_numbers import YOUR_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.evidence import Evidence, RecordedFact
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.request import ParsedRequest

_MOST_LEADS, _MOST_CHARACTERS = 3, 1_500
# The definition at the beginning of a fact.
_OWNER = re.compile(r"`[^`]+`")
# What no line does has no place.
_ABSENT = "no line of "
_LOW_RISK = RiskAssessment("Low", "Easy")
_OWN_PLAYBOOKS = "esper_agents.reasoning.playbooks."
# Wishes that lines of the code satisfy; for others they come before what the agent finds or measures.
_BY_READING = frozenset((Wish.EXPLAIN, Wish.JUDGE, Wish.COMPARE, Wish.FIND_CAUSE))
_OTHER_WISHES = frozenset((Wish.WRITE, Wish.MEASURE))
_MEASURED = frozenset(
    (
        *("speed", "memory growth", "memory", "NaN or Inf", "idle device", "convergence", "upgrade", "tests"),
        *(
            "alternatives",
            "torch.compile",
            "export",
            "distributed training",
            "reproducibility",
            "security",
            "untrusted files",
        ),
    )
)
_CANDIDATES = (Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK, Assessment.OPEN)


def question_first(
    play: Callable[[Brief], Generator[Move, Any, Conclude]], brief: Brief
) -> Generator[Move, Any, Conclude]:
    """Answer a question by the lines that its words refer to; otherwise, or for a cause, play the playbook as well.

    Args:
        play: Playbook of the agent.
        brief: Brief of the frame.
    """
    request = brief.request
    # A playbook of another package says itself what it answers.
    is_own = getattr(play, "__module__", "").startswith(_OWN_PLAYBOOKS)
    if request is None or not is_own or not _is_question(brief, request) or asks_to_run_tests(brief.task.request):
        return (yield from play(brief))
    leads = (yield from _leads(brief)) if request.grounded and not request.errors else []
    observed = (yield from observed_answer(brief, leads)) if not _is_measured(request) else ObservedAnswer()
    if not leads and not observed.text:
        return (yield from play(brief))
    # What calls show is nearer to an answer than lines that share its words.
    first = f"{observed.text} {_told(leads[: 1 if observed.text else _MOST_LEADS])}".strip()
    if _is_enough(brief, request):
        caveat = observed.caveat or "From the code read; nothing was run."
        return Conclude(summary=first, caveats=(caveat,), risks=_LOW_RISK)
    seen: list[Evidence] = []
    conclusion = yield from _watched(play(brief), seen)
    if observed.caveat:
        conclusion = replace(conclusion, caveats=(*conclusion.caveats, observed.caveat))
    # What an inspection of the topic found is nearer to a cause than the lines that the words refer to.
    has_candidate = any(fact.assessment in _CANDIDATES for fact in facts_of(seen))
    is_computed = bool(leads) and YOUR_NUMBERS in leads[0].text
    if has_candidate and request.topics and not (_is_written(request) or is_computed):
        return replace(conclusion, summary=f"{conclusion.summary} {first}".strip())
    # That nothing was found about a topic is no answer beside lines that are one.
    more = conclusion.summary if has_candidate or any(map(is_measurement, seen)) else ""
    return replace(conclusion, summary=f"{first} {more}".strip())


def _leads(brief: Brief) -> Generator[Move, Any, list[RecordedFact]]:
    """Return the lines that the words of a question refer to; none if the inspection failed."""
    arguments = {"paths": list(brief.task.paths), "question": brief.task.request[:_MOST_CHARACTERS]}
    given = yield CallTools((ToolCall(INSPECT, arguments),))
    if isinstance(given, Refusal) or given[0].evidence.outcome is not CallOutcome.COMPLETED:
        return []
    return [fact for fact in facts_of([given[0].evidence]) if fact.query == QUESTION_ANSWERS]


def _is_measured(request: ParsedRequest) -> bool:
    """Return whether the agent finds the cause by a measurement of its own."""
    return request.wish is Wish.FIND_CAUSE and bool(_MEASURED & {topic.name for topic in request.topics})


def _is_written(request: ParsedRequest) -> bool:
    """Return whether the request writes a name of the code as it is: `fine_tune`, `num_mini_batches`."""
    return any(name.words == name.name and "_" in name.name.strip("_") for name in request.grounded)


def _watched(moves: Generator[Move, Any, Conclude], seen: list[Evidence]) -> Generator[Move, Any, Conclude]:
    """Play a playbook, and keep the evidence of the calls that it makes."""
    result: Any = None
    try:
        while True:
            result = yield moves.send(result)
            if isinstance(result, tuple):
                seen += [each.evidence for each in result if isinstance(each, ToolReport)]
    except StopIteration as end:
        conclusion: Conclude = end.value
        return conclusion


def _told(leads: Iterable[RecordedFact]) -> str:
    """Return facts as sentences, each with its place after the definition that it begins with."""
    return " ".join(f"{_placed(fact)}." for fact in list(leads)[:_MOST_LEADS])


def _placed(fact: RecordedFact) -> str:
    owner = _OWNER.match(fact.text)
    if _ABSENT in fact.text:
        return f"{fact.text[:1].upper()}{fact.text[1:]}"
    if owner is None:
        return f"{fact.text[:1].upper()}{fact.text[1:]} ({fact.place})"
    return f"{owner.group()} ({fact.place}){fact.text[owner.end() :]}"


def _is_question(brief: Brief, request: ParsedRequest) -> bool:
    """Return whether the request may be a question about the code, and the agent has the tool and the code."""
    is_part = brief.handoff is not None or bool(brief.question) or brief.task.change is not None
    has_tool = any(tool.name == INSPECT for tool in brief.tools)
    is_other = request.wish in _OTHER_WISHES or Material.TRACE in request.materials
    is_choice = request.wish is Wish.COMPARE and len(request.symbols) > 1
    is_about_code = bool((request.grounded or request.symbols) and brief.task.paths)
    return is_about_code and has_tool and not (is_part or is_other or is_choice)


def _is_enough(brief: Brief, request: ParsedRequest) -> bool:
    """Return whether the lines are the whole answer: the question asks for no verdict, no cause and no measurement."""
    is_advice = brief.task.kind is QuestionType.ADVICE
    topics = {topic.name for topic in request.topics}
    # The agent looks for the cause of a problem with its own means.
    is_open = bool(topics) if request.wish is Wish.FIND_CAUSE else bool(topics & _MEASURED)
    is_explained = request.wish is Wish.EXPLAIN
    return is_advice and request.wish in _BY_READING and (is_explained or not is_open)
