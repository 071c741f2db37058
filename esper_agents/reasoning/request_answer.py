"""First sentences of a playbook's summary: the answer to this request, from findings and searches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import documents_told, faults_asked_about
from esper_agents.domain.finding import Severity
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.request import ConstraintKind, Quantity, Wish
from esper_agents.domain.status import QuestionType
from esper_agents.reasoning.code_inspection import is_of_query, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Diagnostic, Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.request import FileReference, Observation, ParsedRequest

_MOST_SEARCHES = 3
_MOST_NAMED = 2
_MOST_OBSERVATIONS = 3
# Lines around a frame of a stack trace.
_NEAR_LINES = 3
_OFF_TOPIC, _UNRELATED = 3, 4
# Backward function of an operation in an error message, such as `AcosBackward0`.
_BACKWARD = re.compile(r"([A-Za-z]+)Backward\d*")


def request_searches(brief: Brief, known: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the strings to search for that this request adds: names of definitions, then those of its topics.

    Args:
        brief: Brief of the task; nothing is added for a session of version 0.1.0.
        known: Strings that the agent searches for anyway.
    """
    if brief.request is None:
        return ()
    names = [f"{symbol.name.rpartition('.')[2]}(" for symbol in brief.request.symbols[:1]]
    wanted = dict.fromkeys((*names, *(text for topic in brief.request.topics for text in topic.searches)))
    return tuple(text for text in wanted if not any(text in each or each in text for each in known))[:_MOST_SEARCHES]


def by_relevance(brief: Brief, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with those first that this request is about; the order is otherwise unchanged."""
    request = brief.request
    if request is None:
        return tuple(findings)
    return tuple(sorted(findings, key=lambda finding: _distance(request, finding.claim)))


def of_faults(findings: Iterable[Finding], faults: frozenset[tuple[str, str]] | None) -> tuple[Finding, ...]:
    """Return the findings that are faults, given as `FILE:LINE` and rule; all of them if there are none given."""
    at = "{0.path}:{0.line}".format
    return tuple(each for each in findings if faults is None or (at(each.claim.location), each.claim.rule) in faults)


def is_asked_about(brief: Brief, finding: Finding) -> bool:
    """Return whether a request for advice is about a finding; a request without a topic is about all of them."""
    request = brief.request
    if request is None or not request.topics or brief.task.kind is not QuestionType.ADVICE:
        return True
    faults = faults_asked_about(brief.evidence)
    return _distance(request, finding.claim) < _UNRELATED and bool(of_faults([finding], faults))


def answer(
    brief: Brief,
    findings: Sequence[Finding],
    searched: Sequence[ToolReport] = (),
    inspected: Iterable[Evidence] = (),
) -> str:
    """Return the answer to the request in a few sentences; empty for a session of version 0.1.0.

    Args:
        brief: Brief of the task.
        findings: Findings of the session so far.
        searched: Reports of the searches of `request_searches`.
        inspected: Evidence of the session so far, with its inspections.
    """
    request = brief.request
    if request is None:
        return ""
    inspected = tuple(inspected)
    faults = faults_asked_about(inspected) if brief.task.kind is QuestionType.ADVICE else None
    ordered = by_relevance(brief, findings)
    relevant = [each for each in of_faults(ordered, faults) if _distance(request, each.claim) < _UNRELATED]
    if facts := told(inspected, request):
        # What the code does about the topics says more than where it names them.
        lead = f"{_capital(_subject(request))}: {facts}" if _subject(request) else facts
        worst = sorted(relevant, key=lambda finding: _urgency(request, finding))
        is_other = bool(worst) and _urgency(request, worst[0])[0]
        label = f"Not about {request.topics[0].name}" if is_other else "First"
        # Who asks for an explanation did not ask what is wrong, unless that is its topic.
        is_plain = request.wish is Wish.EXPLAIN and (is_other or not request.topics)
        is_said = bool(worst) and str(worst[0].claim.location) in lead
        sentences = [lead, f"{label}: {_shown(worst)}." if worst and not is_plain and not is_said else ""]
    else:
        verdict = _verdict(request, relevant, len(ordered))
        places = ", ".join(place for place, _ in documents_told(inspected))
        documents = f"The project's documents speak of it: {places}." if places else ""
        sentences = [verdict, documents, *_on_symbols(request, ordered), *_uses(request, searched)]
    if unchecked := [constraint for constraint in request.constraints if constraint.kind is not ConstraintKind.NO_RUN]:
        sentences.append(f"Not checked: {', '.join(repr(constraint.text) for constraint in unchecked)}.")
    return " ".join(filter(None, sentences))


def led_by_answer(brief: Brief, summary: str, findings: Sequence[Finding]) -> str:
    """Return a summary that begins with the answer to the request."""
    first = answer(brief, findings, inspected=brief.evidence)
    return f"{first} {summary}" if first and not summary.startswith(first) else summary


def steps_asked(brief: Brief, default: int, most: int) -> int:
    """Return the number of steps to run: a tenth more than the request observed, between a default and a limit."""
    seen = brief.request.observed(Quantity.STEPS) if brief.request else None
    return default if seen is None or seen.value is None else int(min(max(default, 1.1 * seen.value), most))


def _distance(request: ParsedRequest, claim: Diagnostic) -> int:
    """Return how far a finding is from the subject of a request: 0 on its topic in a named definition, 4 unrelated."""
    place = claim.location
    is_stated = is_of_query(claim.rule)
    is_on_topic = is_stated or any(claim.rule.startswith(rule) for topic in request.topics for rule in topic.rules)
    inside = any(
        symbol.path == place.path and symbol.line <= place.line <= symbol.last_line
        for symbol in (*request.symbols, *request.related)
    )
    if inside or any(_is_near(reference, claim) for reference in request.files):
        return 0 if is_on_topic or not request.topics else _OFF_TOPIC
    if is_on_topic:
        return 1 if is_stated else 2
    return _OFF_TOPIC if not request.topics and not request.symbols else _UNRELATED


def _urgency(request: ParsedRequest, finding: Finding) -> tuple[bool, bool, int, int]:
    """Return a key by which findings about the failed operation, on the topic and in named definitions come first."""
    distance = _distance(request, finding.claim)
    is_off_topic = bool(request.topics) and distance >= _OFF_TOPIC
    failed = {name.lower() for error in request.errors for name in _BACKWARD.findall(error.message)}
    is_other = not any(f"{name}(" in finding.claim.message.lower() for name in failed)
    near = distance if request.symbols else 0
    return is_off_topic, is_other, near, tuple(Severity).index(finding.claim.severity)


def _is_near(reference: FileReference, claim: Diagnostic) -> bool:
    is_same = reference.path == claim.location.path
    return is_same and reference.line > 0 and abs(reference.line - claim.location.line) <= _NEAR_LINES


def _verdict(request: ParsedRequest, relevant: Sequence[Finding], total: int) -> str:
    subject = _subject(request)
    others = total - len(relevant)
    if not relevant:
        more = f"; {number_of(others, 'finding')} about something else" if others else ""
        return f"No finding {_explains(request)} {subject}{more}." if subject else ""
    return f"{_opening(request, subject)}: {_shown(relevant)}."


def _shown(relevant: Sequence[Finding]) -> str:
    shown = "; ".join(f"{each.claim.location} {each.claim.message.rstrip('.')}" for each in relevant[:_MOST_NAMED])
    return shown + (f" ({len(relevant) - _MOST_NAMED} more)" if len(relevant) > _MOST_NAMED else "")


def _opening(request: ParsedRequest, subject: str) -> str:
    match request.wish:
        case Wish.FIND_CAUSE:
            return f"Possible cause of {subject}" if subject else "Possible cause"
        case Wish.EXPLAIN:
            return f"Explanation of {subject}" if subject else "Explanation"
        case Wish.PLAN | Wish.WRITE:
            return f"To change for {subject}" if subject else "To change"
        case Wish.COMPARE | Wish.MEASURE:
            return f"To consider before measuring {subject}" if subject else "To consider before measuring"
        case Wish.JUDGE:
            return f"Against {subject}" if subject else "First"


def _explains(request: ParsedRequest) -> str:
    return "explains" if request.wish in {Wish.FIND_CAUSE, Wish.EXPLAIN} else "concerns"


def _subject(request: ParsedRequest) -> str:
    """Return the subject with the user's observations, such as `memory growth ("40 MB every epoch")`."""
    seen = ", ".join(f'"{_words(observation)}"' for observation in request.observations[:_MOST_OBSERVATIONS])
    errors = str(request.errors[0]).partition(": ")[0] if request.errors else ""
    names = [*(topic.name for topic in request.topics[:2]), *([errors] if errors else [])]
    subject = " and ".join(names) or (request.symbols[0].name if request.symbols else "")
    return f"{subject} ({seen})" if subject and seen else subject or seen


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _words(seen: Observation) -> str:
    return seen.text.replace('"', "'")


def _on_symbols(request: ParsedRequest, findings: Sequence[Finding]) -> Iterable[str]:
    # That rules found nothing in a definition answers only whether it is right.
    judged = request.symbols[:_MOST_NAMED] if request.wish is Wish.JUDGE else ()
    for symbol in judged:
        inside = [
            finding
            for finding in findings
            if finding.claim.location.path == symbol.path
            and symbol.line <= finding.claim.location.line <= symbol.last_line
        ]
        yield f"{symbol} contains {number_of(len(inside), 'finding') if inside else 'no finding'}."
    for symbol in request.ambiguous[:1]:
        places = ", ".join(str(each) for each in request.ambiguous if each.words == symbol.words)
        yield f"{symbol.words} is defined more than once: {places}."


def _uses(request: ParsedRequest, searched: Sequence[ToolReport]) -> Iterable[str]:
    """Yield where the code does what the topics are about."""
    if not request.topics and not request.symbols:
        return
    for report in searched:
        hits = report.evidence.output.get("hits", [])
        places = ", ".join(f"{hit['path']}:{hit['line']}" for hit in hits[:_MOST_NAMED])
        if places:
            more = f" and {len(hits) - _MOST_NAMED} more" if len(hits) > _MOST_NAMED else ""
            yield f"`{report.evidence.arguments.get('text', '')}` is at {places}{more}."
