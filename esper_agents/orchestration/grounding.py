"""Check every citation and number of model output against the evidence.

Ungrounded actions are returned to the model. After the second time, the certificate marks the statement as unverified:
a claim as an information gap, a sentence with a caveat. Neither can raise a status. A pure function of the ledger.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Conclude, HandOff
from esper_agents.domain.assumption import AssumptionState, InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Severity
from esper_agents.domain.ledger import Refusal
from esper_agents.orchestration.evidence_numbers import UNIT, Quantities, decimal
from esper_agents.reasoning.action_schema import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from decimal import Decimal

    from esper_agents.domain.agent_action import Move, SupportedClaim
    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.evidence import Evidence
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_projection import SessionProjection

# Number of times a conclusion or handoff is returned before it is accepted as unverified.
_MOST_RETURNS = 2
_FILE = r"(?<![\w/.-])(?P<path>(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,5})"
# `a.py:12`, `a.py#L12`; `a.py`, line 12; line 12 of `a.py`.
_CITED = tuple(
    re.compile(each)
    for each in (
        rf"{_FILE}(?::|#L)(?P<line>\d+)",
        rf"{_FILE}[`'\"]?,? \(?(?:(?:at|on|in) )?lines? (?P<line>\d+)",
        rf"\blines? (?P<line>\d+) (?:of|in) [`'\"]?{_FILE}",
    )
)
# A hyphen is a minus sign unless a word precedes it.
_NUMBER = re.compile(rf"(?<![\w.,:/#^])(?<!\w-)(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)[ \u00a0]?({UNIT})?(?!\w)")
_RANGE = re.compile(rf"(?<![\w.,-])(\d[\d,.]*)-(\d[\d,.]*[ \u00a0]?)({UNIT})(?!\w)")
# Product names precede version numbers; a number that is part of a name is not a measurement either.
_VERSIONED = re.compile(
    r"\b(?:(?:py)?torch|python|cuda|cudnn|triton|onnx|opset|driver|version|release|v|step|epoch"
    r"|lines?(?:\W{1,3}\d+\W{0,3}(?:and|to|or)?){0,9})\W{0,3}$",
    re.IGNORECASE,
)
# Length of the text before a number that is checked for such a name.
_BEFORE = 80
# Small whole numbers are counts and are not checked.
_COUNTED = 20


@dataclass(frozen=True, slots=True)
class UngroundedStatement:
    """Statement of a model without supporting evidence.

    Attributes:
        why: Reason as a sentence.
        claim: Claim concerned; None for other texts.
    """

    why: str
    claim: SupportedClaim | None = None


def ungrounded_statements(history: SessionProjection, frame: FrameState, move: Move) -> tuple[UngroundedStatement, ...]:
    """Return the ungrounded statements of a model's conclusion or handoff; none for a playbook."""
    if not isinstance(move, Conclude | HandOff) or not frame.opened.definition.is_model:
        return ()
    evidence = {each.id: each for each in history.evidence() if each.outcome is CallOutcome.COMPLETED}
    lines = {file.path: file.lines for each in history.evidence() for file in each.examined}
    found = [doubt for each in move.claims for doubt in _of_claim(each, evidence, lines)]
    known = _known(history, tuple(evidence.values()))
    said = [*((name, text, False) for name, text in _words(move)), *((*each, True) for each in _proposals(move))]
    for name, text, is_proposed in said:
        found.extend(
            UngroundedStatement(f"{name} cites {place}, which nobody has read") for place in _unread(text, lines)
        )
        found.extend(
            UngroundedStatement(f"{name} says {number}, which stands in no evidence of this session")
            for number in _unknown(text, known, is_proposed=is_proposed)
        )
    return tuple(found)


def downgrade_ungrounded(history: SessionProjection, frame: FrameState, move: Move) -> Move:
    """Return a model's action with its ungrounded statements marked, after the last retry."""
    if not isinstance(move, Conclude | HandOff) or not retries_exhausted(frame, move):
        return move
    found = ungrounded_statements(history, frame, move)
    doubted = {id(each.claim): each for each in found if each.claim is not None}
    gaps = tuple(_gap(each) for each in doubted.values())
    claims = tuple(each for each in move.claims if id(each) not in doubted)
    told = tuple(f"Unverified: {each.why}." for each in found if each.claim is None)
    settled = tuple(_settled(history, each) for each in move.assumptions)
    if isinstance(move, Conclude):
        caveats = (*told, *move.caveats)
        return replace(move, claims=claims, gaps=(*move.gaps, *gaps), caveats=caveats, assumptions=settled)
    said = " ".join((move.context, *told))
    return replace(move, claims=claims, gaps=(*move.gaps, *gaps), context=said, assumptions=settled)


def retries_exhausted(frame: FrameState, move: Conclude | HandOff) -> bool:
    """Return whether actions of this kind have been returned the maximum number of times."""
    last = frame.settled[-_MOST_RETURNS:]
    returned = [each for each in last if isinstance(each.result, Refusal) and isinstance(each.move, type(move))]
    return len(returned) == _MOST_RETURNS


def _settled(history: SessionProjection, assumption: Assumption) -> Assumption:
    """Return the recorded state of an assumption: open if it cites evidence that the session does not have."""
    is_known = {each.id for each in history.evidence()}.issuperset(assumption.evidence)
    return assumption if is_known else replace(assumption, state=AssumptionState.OPEN, evidence=())


def _gap(doubt: UngroundedStatement) -> InformationGap:
    claim = doubt.claim.claim if doubt.claim else None
    what = f"unverified: {claim.message} ({claim.location})" if claim else doubt.why
    command = f"esper review {quote(claim.location.path)}" if claim else ""
    # An ungrounded opposite does not support a claim either.
    is_grave = claim is not None and claim.severity is Severity.CRITICAL
    return InformationGap(what, doubt.why, command, blocks_approval=is_grave)


def _of_claim(
    said: SupportedClaim, evidence: Mapping[str, Evidence], lines: Mapping[str, int]
) -> Iterator[UngroundedStatement]:
    claim, named = said.claim, [evidence[each] for each in said.evidence if each in evidence]
    if not named or len(named) < len(said.evidence):
        yield UngroundedStatement(
            f"the claim {claim.name!r} names no evidence of this session that came to a result", said
        )
        return
    read = {file.path: file.lines for each in named for file in each.examined}
    if not 1 <= claim.location.line <= read.get(claim.location.path, 0):
        yield UngroundedStatement(
            f"the claim {claim.name!r} cites {claim.location}, which the evidence it names has not read", said
        )
    known = Quantities(*_parts(named))
    text = f"{claim.message} {claim.basis}"
    for place in _unread(text, lines):
        yield UngroundedStatement(f"the claim {claim.name!r} cites {place}, which nobody has read", said)
    for number in _unknown(text, known):
        yield UngroundedStatement(
            f"the claim {claim.name!r} says {number}, which does not stand in the evidence it names", said
        )


def _words(move: Conclude | HandOff) -> Iterator[tuple[str, str]]:
    """Yield the texts other than claims, each with its label."""
    for gap in move.gaps:
        yield "a gap", f"{gap.what} {gap.why}"
    if isinstance(move, HandOff):
        yield "the context", move.context
        yield "the reason", move.reason
        return
    yield "the summary", move.summary
    yield "the rationale", move.rationale
    yield "the reason below the ceiling", move.below_ceiling
    for name, many in (("a condition", move.conditions), ("a caveat", move.caveats)):
        for each in many:
            yield name, each
    for row in move.risks.rows:
        yield "a risk", row.risk


def _proposals(move: Conclude | HandOff) -> Iterator[tuple[str, str]]:
    """Yield the proposed actions, each with its label. A number without unit there is a setting."""
    for each in move.claims:
        yield f"the remedy of {each.claim.name!r}", each.claim.remedy
    if isinstance(move, Conclude):
        yield from (("a next step", each) for each in move.next_steps)
        yield from (("a mitigation", row.mitigation) for row in move.risks.rows)


def _unread(text: str, lines: Mapping[str, int]) -> Iterator[str]:
    for cited in (found for form in _CITED for found in form.finditer(text)):
        path, line = cited["path"], cited["line"]
        if not 1 <= int(line) <= lines.get(path.removeprefix("./"), 0):
            yield f"{path}:{line}"


def _known(history: SessionProjection, evidence: Sequence[Evidence]) -> Quantities:
    """Return the numbers recorded by tools, users and playbooks, not by models."""
    begun = history.begun
    findings = (
        f"{each.claim.message} {each.claim.remedy} {each.claim.location.line}"
        for each in history.findings()
        if each.claim.rule != RULE
    )
    return Quantities(begun.task.request, *begun.environment.values(), *findings, *_parts(evidence))


def _parts(evidence: Sequence[Evidence]) -> Iterator[object]:
    for each in evidence:
        yield from (each.summary, each.output, each.arguments)


def _unknown(text: str, known: Quantities, *, is_proposed: bool = False) -> Iterator[str]:
    """Yield the numbers of a text that match no recorded one, in any unit that fits, rounded as in the text.

    Args:
        text: Text to check.
        known: Recorded numbers.
        is_proposed: Whether the text is a proposal, in which only numbers with a unit are checked.
    """
    plain = _RANGE.sub(r"\1 \3, \2\3", text)
    for form in _CITED:
        plain = form.sub(" ", plain)
    for found in _NUMBER.finditer(plain):
        value, unit = decimal(found.group(1)), found.group(2) or ""
        is_name = not unit and _VERSIONED.search(plain[max(0, found.start() - _BEFORE) : found.start()])
        if value is None or is_name or _is_count(value, unit) or (is_proposed and not unit):
            continue
        if not known.has(value, unit):
            yield found.group().strip()


def _is_count(value: Decimal, unit: str) -> bool:
    return not unit and value == value.to_integral_value() and value <= _COUNTED
