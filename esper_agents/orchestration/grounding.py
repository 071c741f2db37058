"""Check findings, citations and numbers of a model against the code and the evidence.

A finding is located in the code by its quote or its lines, and keeps its place and severity whatever the check says.
Its standing says what the program knows of it: confirmed by a rule, a run or a test; located; or unverified. Ungrounded
statements are returned to the model with the one thing to change; after the second time they stand as unverified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Conclude, HandOff, ModelCitation
from esper_agents.domain.assumption import AssumptionState
from esper_agents.domain.evidence import CallOutcome, lines_read
from esper_agents.domain.finding import Location, Severity, Standing, fingerprint
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.status import Stance
from esper_agents.orchestration.citations import line_ranges, locate
from esper_agents.orchestration.contradictions import contradiction
from esper_agents.orchestration.measured_numbers import RecordedNumbers
from esper_agents.reasoning.action_schema import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.agent_action import Move, SupportedClaim
    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Diagnostic, Finding
    from esper_agents.orchestration.citations import CitedSources, LocatedCitation
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_projection import SessionProjection

# Number of times a conclusion or handoff is returned before it is accepted as unverified.
MOST_RETURNS = 2
_FILE = r"(?<![\w/.-])(?P<path>(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,5})"
# `a.py:12`, `a.py#L12`; `a.py`, line 12; line 12 of `a.py`.
_CITED = tuple(
    re.compile(each)
    for each in (
        rf"{_FILE}(?::|#L)(?P<line>\d+(?:-\d+)?)",
        rf"{_FILE}[`'\"]?,? \(?(?:(?:at|on|in) )?lines? (?P<line>\d+(?:(?:-| to )\d+)?)",
        rf"\blines? (?P<line>\d+(?:(?:-| to )\d+)?) (?:of|in) [`'\"]?{_FILE}",
    )
)
_NOT_MEASURED = "which no measurement of this session has"
_OTHER_UNIT = " with this unit"
_WORD = re.compile(r"[a-z]{4,}")
_SAME_WORDS = 2
_PATCH = re.compile(r"^(?:---|\+\+\+|@@) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grounding:
    """Result of the check of a conclusion or handoff.

    Attributes:
        move: The action, with each finding located and marked.
        problems: Statements that could not be grounded, each as a sentence that says what to change.
        caveats: The statements among them that are not part of a finding.
    """

    move: Conclude | HandOff
    problems: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def marked(self) -> Conclude | HandOff:
        """The action as it stands if nothing is changed: with the ungrounded statements marked."""
        told = tuple(f"Unverified: {caveat}." for caveat in self.caveats)
        if isinstance(self.move, Conclude):
            return replace(self.move, caveats=(*told, *self.move.caveats))
        return replace(self.move, context=" ".join((self.move.context, *told)))


def ground(history: SessionProjection, frame: FrameState, move: Move, sources: CitedSources) -> Grounding | None:
    """Return a model's conclusion or handoff with its findings located and marked; None for anything else."""
    if not isinstance(move, Conclude | HandOff) or not frame.opened.definition.is_model:
        return None
    desk = _Desk(history, sources, move)
    claims = tuple(map(desk.checked, move.claims))
    settled = tuple(_settled(history, assumption) for assumption in move.assumptions)
    caveats = tuple(desk.of_words(move))
    unverified = [claim for claim in claims if claim.standing is Standing.UNVERIFIED]
    problems = tuple(f"the finding {each.claim.name!r}: {each.checks[-1]}" for each in unverified)
    sent_back = tuple(map(_with_change, (*problems, *caveats)))
    return Grounding(replace(move, claims=claims, assumptions=settled), sent_back, caveats)


def _with_change(problem: str) -> str:
    """Return a problem with what to change, if it is a number without evidence."""
    if problem.endswith(_OTHER_UNIT):
        return f"{problem}: print it with its unit in a run, or write it without one"
    if problem.endswith(_NOT_MEASURED):
        return f"{problem}: measure it, print it with its unit in a run, or omit it"
    return problem


def retries_exhausted(frame: FrameState, move: Conclude | HandOff) -> bool:
    """Return whether actions of this kind have been returned the maximum number of times since the last result."""
    returned = 0
    for turn in reversed(frame.settled):
        if not isinstance(turn.result, Refusal):
            break
        returned += isinstance(turn.move, type(move))
    return returned >= MOST_RETURNS


def kept_unverified(grounding: Grounding, why: str) -> Conclude | HandOff:
    """Return the well-formed parts of a refused conclusion, undecided, and each finding marked as unverified."""
    claims = tuple(
        replace(claim, standing=Standing.UNVERIFIED, checks=(*claim.checks, why)) for claim in grounding.move.claims
    )
    marked = replace(grounding.marked, claims=claims)
    return replace(marked, stance=Stance.UNDECIDED, below_ceiling=why) if isinstance(marked, Conclude) else marked


def _settled(history: SessionProjection, assumption: Assumption) -> Assumption:
    """Return the recorded state of an assumption: open if it cites evidence that the session does not have."""
    is_known = {each.id for each in history.evidence()}.issuperset(assumption.evidence)
    return assumption if is_known else replace(assumption, state=AssumptionState.OPEN, evidence=())


class _Desk:
    """Check of one action against the evidence of its session."""

    def __init__(self, history: SessionProjection, sources: CitedSources, move: Conclude | HandOff) -> None:
        self._sources = sources
        self._evidence = tuple(each for each in history.evidence() if each.outcome is CallOutcome.COMPLETED)
        self._read = {each.id: lines_read(each) for each in self._evidence}
        self._files = {path for ranges in self._read.values() for path in ranges}
        begun, found = history.begun, history.findings()
        self._recorded = tuple(each for each in found if each.standing is Standing.RECORDED and each.claim.rule != RULE)
        own = [claim.claim.severity for claim in move.claims]
        known = [each.claim.severity for each in found]
        counts = {len(some) for some in (own, known, own + known)}
        counts |= {some.count(each) for each in Severity for some in (own, known, own + known)}
        said = (f"{each.claim.message} {each.claim.remedy}" for each in self._recorded)
        others = (begun.task.request, *said)
        self._numbers = RecordedNumbers(self._evidence, others, tuple(counts))

    def checked(self, said: SupportedClaim) -> SupportedClaim:
        """Return a finding with its place in the code and its standing."""
        claim = said.claim
        cited = (
            said.cited
            if said.cited != ModelCitation()
            else ModelCitation(claim.location.path, str(claim.location.line))
        )
        found = locate(cited, claim.message, self._sources, self._files)
        location = Location(found.path, found.lines.first, 1, found.lines.last)
        mark = fingerprint(f"{RULE}/{claim.name}", found.path, found.excerpt or claim.message, 0)
        claim = replace(claim, location=location, excerpt=found.excerpt, fingerprint=mark)
        evidence, notes = self._supporting(said.evidence, location, is_there=bool(found.excerpt))
        notes = [*found.notes, *notes]
        problems = [found.problem] if found.problem else []
        if self._has_changed(found.path):
            if found.problem or not cited.quote.strip():
                problems.append(
                    f"{found.path} has changed since it was read: read it again, and cite its present lines"
                )
            else:
                notes.append(f"{found.path} has changed since it was read; the quote is in its present version")
        problems += self._of_claim(claim, found)
        by = next((each for each in self._current(found.path) if _is_same_statement(each.claim, claim)), None)
        if problems:
            standing, checks = Standing.UNVERIFIED, (*notes, *problems)
        elif by is not None:
            where = f"{by.claim.rule} reports the same at {by.claim.location}"
            standing, checks = Standing.CONFIRMED, (*notes, where)
            evidence = tuple(dict.fromkeys((*evidence, *by.evidence)))
        else:
            standing, checks = Standing.LOCATED, tuple(notes)
        return replace(said, claim=claim, evidence=evidence, standing=standing, checks=checks)

    def of_words(self, move: Conclude | HandOff) -> Iterator[str]:
        """Yield the ungrounded statements outside findings, each as a sentence."""
        for name, text in _words(move):
            yield from (f"{name} {each}" for each in self._of_text(text))
        for name, text in _proposals(move):
            yield from (f"{name} {each}" for each in self._of_text(text, is_proposed=True))

    def _of_claim(self, claim: Diagnostic, found: LocatedCitation) -> Iterator[str]:
        lines = self._sources.text(found.path)
        code = (*lines.lines[found.lines.first - 1 : found.lines.last], *lines.lines) if lines else ()
        for each in self._of_text(f"{claim.message} {claim.basis}", code):
            yield f"it {each}"
        current = [each for each in self._evidence if not self._is_outdated(each, found.path)]
        if opposite := contradiction(claim, current):
            yield opposite

    def _of_text(self, text: str, code: Sequence[str] = (), *, is_proposed: bool = False) -> Iterator[str]:
        """Yield what a text says that cannot be grounded: places that do not exist, and numbers without evidence."""
        if not (is_proposed and _PATCH.search(text)):
            yield from (f"cites {place}, which is not in the project" for place in self._unknown_places(text))
        plain = text
        for form in _CITED:
            plain = form.sub(" ", plain)
        for each in self._numbers.doubtful(plain, code, is_proposed=is_proposed):
            if each.is_contradicted:
                why = "a measurement says the opposite"
            else:
                why = f"{_NOT_MEASURED}{_OTHER_UNIT if each.has_other_unit else ''}"
            yield f"says {each.text}, {why}"

    def _unknown_places(self, text: str) -> Iterator[str]:
        for found in (each for form in _CITED for each in form.finditer(text)):
            located = locate(ModelCitation(found["path"], found["line"]), "", self._sources, self._files)
            file = self._sources.text(located.path)
            if file is None or not all(map(file.has, line_ranges(found["line"]))):
                yield f"{found['path']}:{found['line']}"

    def _supporting(
        self, named: Sequence[str], location: Location, *, is_there: bool
    ) -> tuple[tuple[str, ...], list[str]]:
        """Return the evidence of a finding: the named calls, and one that read the lines, if any did."""
        known, notes = [], []
        for each in named:
            meant = self._meant(each)
            if meant is None:
                notes.append(f"evidence {each[:60]!r} is not on record")
            elif meant not in known:
                known.append(meant)
        current = {
            each.id: self._read[each.id] for each in self._evidence if not self._is_outdated(each, location.path)
        }
        if not current.keys() >= set(known):
            notes.append(f"its evidence read an earlier version of {location.path}")
            known = [each for each in known if each in current]
        if not any(_covers(current[each], location) for each in known):
            reading = next((each for each in reversed(current) if _covers(current[each], location)), "")
            if reading:
                known.append(reading)
            elif is_there:
                notes.append("no agent had read these lines; the program opened them")
        return tuple(known), notes

    def _is_outdated(self, evidence: Evidence, path: str) -> bool:
        """Return whether a call read only an earlier version of a file."""
        text = self._sources.text(path)
        read = {file.sha256 for file in evidence.examined if file.path == path}
        return bool(read) and text is not None and text.sha256 not in read

    def _has_changed(self, path: str) -> bool:
        """Return whether every call that read a file read an earlier version of it."""
        read = [each for each in self._evidence if any(file.path == path for file in each.examined)]
        return bool(read) and all(self._is_outdated(each, path) for each in read)

    def _current(self, path: str) -> tuple[Finding, ...]:
        """Return the findings of the program, without those that rest on an earlier version of a file."""
        outdated = {each.id for each in self._evidence if self._is_outdated(each, path)}
        return tuple(each for each in self._recorded if outdated.isdisjoint(each.evidence))

    def _meant(self, named: str) -> str | None:
        """Return the evidence that a name means: its identifier, or the tool of a single call."""
        if named in self._read:
            return named
        of_tool = [each.id for each in self._evidence if each.tool == named]
        return of_tool[-1] if of_tool else None


def unread_places(history: SessionProjection, claims: Sequence[SupportedClaim]) -> tuple[Location, ...]:
    """Return the places of a model's located findings that none of their own evidence has read."""
    read = {each.id: each for each in history.evidence()}
    cited = (each for each in claims if each.cited != ModelCitation() and each.claim.excerpt)
    unread = (
        each.claim.location
        for each in cited
        if not any(covering(read[name], each.claim.location) for name in each.evidence if name in read)
    )
    return tuple(dict.fromkeys(unread))


def covering(evidence: Evidence, location: Location) -> bool:
    """Return whether a call read all lines of a place."""
    return evidence.outcome is CallOutcome.COMPLETED and _covers(lines_read(evidence), location)


def _covers(ranges: dict[str, tuple[tuple[int, int], ...]], location: Location) -> bool:
    last = max(location.line, location.end_line)
    return any(first <= location.line and last <= end for first, end in ranges.get(location.path, ()))


def _is_same_statement(known: Diagnostic, claim: Diagnostic) -> bool:
    """Return whether a finding of the program says the same as a model's: same lines, category and words, as severe."""
    one, other = known.location, claim.location
    is_there = one.path == other.path and other.line <= max(one.line, one.end_line) and one.line <= other.end_line
    is_as_severe = tuple(Severity).index(known.severity) <= tuple(Severity).index(claim.severity)
    if not is_there or not is_as_severe or known.category is not claim.category:
        return False
    shared = _words_of(known) & _words_of(claim)
    return len(shared) >= _SAME_WORDS


def _words_of(claim: Diagnostic) -> set[str]:
    return set(_WORD.findall(f"{claim.name} {claim.message}".casefold()))


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
    """Yield the proposed actions, each with its label."""
    for claim in move.claims:
        yield f"the remedy of {claim.claim.name!r}", claim.claim.remedy
    if isinstance(move, Conclude):
        yield from (("a next step", next_step) for next_step in move.next_steps)
        yield from (("a mitigation", row.mitigation) for row in move.risks.rows)
