"""Derive the answer of a certificate: what is shown first on the screen and in every view."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.certificates.model_remarks import remarks_on
from esper_agents.certificates.next_command import next_command
from esper_agents.domain.answer import Answer, AnswerFact, AnswerLine
from esper_agents.domain.certificate import findings_asked_about, findings_beside
from esper_agents.domain.evidence import (
    FINDS_INPUTS,
    OBSERVES_CALLS,
    QUESTION_ANSWERS,
    QUESTION_DETAILS,
    USAGE_QUESTIONS,
    CallOutcome,
    documents_told,
    facts_of,
    is_measurement,
    is_run_of_model,
    is_test_run,
    tests_told,
    was_inspected,
)
from esper_agents.domain.finding import UNCONFIRMED, Confidence, EarlierState, Severity, Standing, counted
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import STANCES, QuestionType, Stance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import EarlierFinding, Finding
    from esper_agents.domain.verdict import AppliedPolicyRule

_MOST_SENTENCES, _LONGEST_SENTENCE = 3, 400
_MOST_EARLIER, _LONGEST_EARLIER = 3, 120
_MOST_UNKNOWN, _LONGEST_UNKNOWN = 3, 300
_LONGEST_REMARK, _MOST_CITED = 300, 3
_DOCUMENTED = "documented"
_WITHHELD = "not shown here, as it contradicts the verdict; it is in the certificate"
_STATED, _LONGEST_FACT = ("open", "description", "fine"), 300
# The end of a sentence: a full stop and a capital letter, so that `net.py` and `0.5` are not split.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"(])")
# A statement about what a change removed or what a test refuted outranks one of the same severity.
_FIRST_RULES = ("ESP702", "ESP703", "TEST")
# Queries that answer a direct question.
_DIRECT = frozenset((USAGE_QUESTIONS, QUESTION_ANSWERS))
_DRAFTS_TEST = "torch-test"
_CHANGE_NOT_EXECUTED = "change-not-executed"
# Policy rules about evidence that is missing, and not about evidence that there is.
_MISSING = frozenset(
    ("nothing-examined", "not-executed", "change-not-executed", "no-measurement", "blocking-gap", "implementation-risk")
)
# As playbooks begin a summary whose findings are about something else.
_NOTHING_RELEVANT = "No finding "
_DECIDED = frozenset((QuestionType.APPROVAL, QuestionType.GO))
# Words of a model that give a verdict themselves.
_APPROVES = re.compile(
    r"(?<!not )(?<!n't )\b(?:approv(?:e|ed|al)|looks? good|lgtm|ship it|safe to (?:merge|ship|deploy)"
    r"|ready to (?:merge|ship)|(?:all|everything) is (?:well|fine|good|correct)"
    r"|(?:no|nothing) (?:issues?|problems?|wrong)|can be merged|go ahead)\b",
    re.IGNORECASE,
)
_OBJECTS = re.compile(
    r"\b(?:reject(?:ed)?|(?:do not|don't) (?:merge|ship|deploy|use)|must not be (?:merged|shipped|used)"
    r"|not (?:safe|ready) to (?:merge|ship|deploy)|no[- ]go|requires remediation|emergency)\b",
    re.IGNORECASE,
)
# Beginning of a model's reason for a verdict below the ceiling, as recorded.
MODELS_REASON = "the model's reason: "
# Beginning of a model's condition, as recorded.
MODELS_CONDITION = "the model's condition: "
# What the standing of a model's finding means.
STANDINGS = {
    Standing.CONFIRMED: "said by a model, confirmed by a rule, a run or a test",
    Standing.LOCATED: "said by a model, located in the code, not confirmed by a rule, a run or a test",
    Standing.UNVERIFIED: "said by a model, unverified",
}
# The text of an edit ends before its reach and before the old line.
_AFTERWARDS = re.compile(r"; | \(line \d+ before: ")
_ADDITION = re.compile(r"^adds |^new file |` (?:and \d+ more statements? )?moved into `")
_SHOWN = 2
_OPENING = {
    Stance.FOR: "Yes",
    Stance.CONDITIONAL: "Yes, under conditions",
    Stance.UNDECIDED: "Not decided",
    Stance.AGAINST: "No",
    Stance.REJECTED: "No",
    Stance.EMERGENCY: "Stop",
}
# To "is something wrong with it?" a yes would say the opposite.
_ASKS_FOR_FAULTS = re.compile(
    r"\b(?:wrong|bugs?|broken|issues?|mistakes?|errors?|problem\w*|falsch|fehler|kaputt)\b", re.IGNORECASE
)
_OPENING_ON_FAULTS = {
    Stance.FOR: "No fault found",
    Stance.CONDITIONAL: "No fault found that decides",
    Stance.UNDECIDED: "Not decided",
    Stance.AGAINST: "There are faults",
    Stance.REJECTED: "There are faults",
    Stance.EMERGENCY: "Stop",
}


def answer_of(certificate: Certificate) -> Answer:
    """Return the answer of a certificate; a pure function of its record."""
    ordered = tuple(sorted(findings_asked_about(certificate), key=_weight))
    deciding = _deciding(certificate, ordered)
    others = (*_others(ordered, deciding), *sorted(findings_beside(certificate), key=_weight))
    model = _model(certificate)
    own = {name: _models_lines(certificate, texts) for name, texts in _models_parts(certificate)} if model else {}
    remarks = remarks_on((*ordered, *others), own.get("caveats", ()))
    return Answer(
        certificate=certificate.id,
        kind=certificate.verdict.kind,
        status=certificate.verdict.status,
        subject=_subject(certificate),
        text=_text_beside_model(certificate, ordered) if model else _text(certificate, ordered),
        model=model,
        because=(*_lines(deciding, remarks), *_reasons(certificate, bool(deciding))),
        also=tuple(_lines((each for each in others if not _is_in_text(certificate, each.claim.rule)), remarks)),
        facts=tuple(_facts(certificate)),
        changed=_changed(certificate),
        ran=(
            *(tests_told([each]) for each in certificate.evidence if is_test_run(each)),
            *(_run_of_model(certificate, each) for each in _cited_runs(certificate)),
        ),
        measured=tuple(_measured(certificate)),
        before=tuple(_before(certificate)),
        unknown=tuple(_unknown(certificate))[:_MOST_UNKNOWN],
        next_command=next_command(certificate),
        model_text=_model_text(certificate) if model else "",
        draft=_draft(certificate),
        conditions=own.get("conditions", ()),
        # Whole, so that the words of a text decide nothing about the form of a view.
        caveats=tuple(own.get("caveats", ())),
        follow_ups=own.get("follow_ups", ()),
    )


def _models_parts(certificate: Certificate) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a model says beside its summary."""
    conditions = (each for each in certificate.verdict.conditions if each.startswith(MODELS_CONDITION))
    yield "conditions", tuple(each.removeprefix(MODELS_CONDITION) for each in conditions)
    yield "caveats", certificate.caveats
    yield "follow_ups", certificate.next_steps


def _models_lines(certificate: Certificate, texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts of a model for the screen; one that contradicts the verdict is named, and not shown."""
    is_advice, stance = certificate.verdict.kind is QuestionType.ADVICE, certificate.verdict.stance
    return tuple(
        _cut(each, _LONGEST_REMARK) if is_advice or not contradicts(each, stance) else _WITHHELD for each in texts
    )


def _weight(finding: Finding) -> tuple[bool, int, bool, bool, int]:
    claim, standing = finding.claim, finding.standing
    is_first = claim.rule.startswith(_FIRST_RULES) or any(each in claim.name for each in ("test", "guard"))
    severity, confidence = tuple(Severity).index(claim.severity), tuple(Confidence).index(claim.confidence)
    # What nothing supports comes last; what a model says follows what the program recorded.
    is_model, is_unverified = standing in UNCONFIRMED, standing is Standing.UNVERIFIED
    return is_unverified, severity, is_model, not is_first, confidence


def _lines(findings: Iterable[Finding], remarks: Mapping[str, tuple[str, ...]]) -> Iterator[AnswerLine]:
    """Yield a line for each statement, with all places of which it is true."""
    places: dict[tuple[str, str, str, str, str, tuple[str, ...]], list[str]] = {}
    for finding in findings:
        claim = finding.claim
        standing = finding.standing.value if finding.standing in UNCONFIRMED else ""
        about = remarks.get(claim.fingerprint, ())
        said = (claim.message, claim.rule, claim.severity.value, claim.remedy, standing, about)
        places.setdefault(said, []).append(str(claim.location))
    for (message, rule, severity, remedy, standing, about), (first, *others) in places.items():
        yield AnswerLine(message, first, rule, severity, remedy, tuple(others), standing, about)


def _others(ordered: tuple[Finding, ...], deciding: tuple[Finding, ...]) -> Iterator[Finding]:
    """Yield what decided nothing; of a rule and an inspection about the same line, only what the inspection states."""
    decided = {each.claim.fingerprint for each in deciding}
    inspected = {_place(each) for each in ordered if _is_of_inspection(each)}
    for each in ordered:
        if each.claim.fingerprint not in decided and (_is_of_inspection(each) or _place(each) not in inspected):
            yield each


def _is_of_inspection(finding: Finding) -> bool:
    return finding.claim.rule == finding.claim.name


def _place(finding: Finding) -> tuple[str, int, str]:
    at = finding.claim.location
    return at.path, at.line, finding.claim.category


def _below_ceiling(certificate: Certificate) -> str:
    """Return why the verdict is below its ceiling, a model's words under its name."""
    stated = certificate.verdict.below_ceiling
    return (
        stated.replace(MODELS_REASON, f"in the words of {_model(certificate)}: ", 1) if _model(certificate) else stated
    )


def _subject(certificate: Certificate) -> str:
    if change := certificate.task.change:
        return f"the change {change.asked} ({change.base[:12]} to {change.head[:12] or 'the work tree'})"
    return certificate.component


def _model(certificate: Certificate) -> str:
    """Return the model that wrote the summary; empty if a playbook did."""
    own = (
        definition
        for definition in certificate.definitions
        if definition.agent == certificate.agent and definition.is_model
    )
    return next((each.exchanges[-1].model if each.exchanges else each.reasoner for each in own), "")


def _deciding(certificate: Certificate, ordered: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings that decided the status; for advice, those that are more than suggestions."""
    if certificate.verdict.kind is QuestionType.ADVICE:
        if _is_beside(certificate):
            return ()
        shown = (each for each in ordered if not _is_in_text(certificate, each.claim.rule))
        return tuple(each for each in shown if each.claim.severity is not Severity.SUGGESTION)
    named = {name for rule in _deciding_rules(certificate) for name in rule.findings}
    return tuple(each for each in ordered if each.claim.fingerprint in named)


def _is_in_text(certificate: Certificate, rule: str) -> bool:
    """Return whether a finding or fact answers a direct question: then the text of a playbook says it."""
    return rule in _DIRECT and not _model(certificate)


def _is_beside(certificate: Certificate) -> bool:
    """Return whether a playbook says that no finding is about the request."""
    return not _model(certificate) and certificate.summary.removeprefix(f"{certificate.agent}: ").startswith(
        _NOTHING_RELEVANT
    )


def _deciding_rules(certificate: Certificate) -> tuple[AppliedPolicyRule, ...]:
    """Return the policy rules that allow no better stance than that of the verdict."""
    verdict = certificate.verdict
    worst = STANCES.index(verdict.stance)
    return tuple(line for line in verdict.ceiling.lines if STANCES.index(line.stance) >= worst)


def _reasons(certificate: Certificate, has_findings: bool) -> Iterator[AnswerLine]:  # noqa: FBT001 - one of two facts
    """Yield the other reasons for the status: evidence against it before evidence that is missing."""
    verdict = certificate.verdict
    rules = [deciding_rule for deciding_rule in _deciding_rules(certificate) if not deciding_rule.findings]
    # Of a file and of the edits in it, the edits say more.
    if any(rule.name == _CHANGE_NOT_EXECUTED for rule in rules):
        rules = [rule for rule in rules if rule.name != "not-executed"]
    blocking = any(gap.blocks_approval for gap in certificate.gaps)
    for rule in sorted(rules, key=lambda each: each.name in _MISSING):
        # The missing information is listed in full as `not known`.
        if not (rule.name == "blocking-gap" and blocking) and not (
            rule.name in _MISSING and has_findings and verdict.stance in {Stance.AGAINST, Stance.REJECTED}
        ):
            yield AnswerLine(rule.because)
    if reason := _below_ceiling(certificate):
        yield AnswerLine(reason)


def _text(certificate: Certificate, ordered: tuple[Finding, ...]) -> str:
    # A verdict on the evidence of another certificate is about what was run again, not about files.
    if certificate.verdict.kind in _DECIDED and REPRODUCE not in certificate.task.options:
        return _decision(certificate)
    text = _sentences(certificate)
    if changed := _edited(certificate):
        return f"{changed} {text}"
    if _is_beside(certificate):
        return text
    if was_inspected(certificate.evidence):
        return text or f"{_extent(certificate)}."
    if ordered and not any(str(each.claim.location) in text for each in ordered[:_MOST_SENTENCES]):
        text = " ".join((_lead(ordered[0]), *_split(certificate)[: _MOST_SENTENCES - 1]))
    return text or f"{_extent(certificate)}."


def _decision(certificate: Certificate) -> str:
    """Return the opening word of a verdict and what it rests on."""
    verdict = certificate.verdict
    has_run = tests_told(certificate.evidence) or any(map(is_measurement, certificate.evidence))
    is_read_only = verdict.stance is Stance.CONDITIONAL and not has_run
    openings = _OPENING_ON_FAULTS if _ASKS_FOR_FAULTS.search(certificate.task.request) else _OPENING
    opening = _opening_of_reading(certificate) if is_read_only else openings[verdict.stance]
    if certificate.task.change and verdict.stance is Stance.CONDITIONAL:
        # Nothing that could have failed has run on the change.
        opening = _OPENING[Stance.UNDECIDED]
    more = " ".join(filter(None, (_stated(certificate), _edited(certificate), _kept(certificate))))
    extent = _extent(certificate)
    if certificate.task.change and (first := _weightiest(certificate)):
        extent = f"{first.claim.location} {first.claim.message.partition(': ')[0].rstrip('.')}; {extent}"
    return f"{opening}: {extent}.{f' {more}' if more else ''}"


def _weightiest(certificate: Certificate) -> Finding | None:
    """Return the finding to name first: more than a suggestion, and recorded by the program."""
    ordered = sorted(findings_asked_about(certificate), key=_weight)
    first = ordered[0] if ordered else None
    is_named = first and first.claim.severity is not Severity.SUGGESTION and first.standing not in UNCONFIRMED
    return first if is_named else None


def _changed(certificate: Certificate) -> tuple[str, ...]:
    """Return what the change of the task does, in words; nothing without a change."""
    if not certificate.task.change:
        return ()
    from esper_agents.domain.change_told import change_told

    return tuple(change_told(certificate.evidence))


def _edited(certificate: Certificate) -> str:
    """Return in how many places a change alters what the code does, with the first ones; empty if no line says it."""
    if not certificate.task.change:
        return ""
    from esper_agents.domain.change_told import change_edits

    told = change_edits(certificate.evidence)
    known = {str(each.claim.location) for each in certificate.findings}
    edits = [each for each in told if not each.is_same and each.place not in known and not _ADDITION.search(each.text)]
    if not edits:
        return ""
    lines = (_AFTERWARDS.split(f"{each.place} {each.text}")[0] for each in edits[:_SHOWN])
    shown = "; ".join(" ".join(_cut(each, _LONGEST_SENTENCE).split()) for each in lines)
    more = f" ({len(edits) - _SHOWN} more)" if len(edits) > _SHOWN else ""
    return f"The change alters what the code does in {number_of(len(edits), 'place')}: {shown}{more}."


def _kept(certificate: Certificate) -> str:
    """Return what a change leaves as it is: definitions that did the same when run, and lines that are form."""
    if not certificate.task.change:
        return ""
    from esper_agents.domain.change_told import form_counted, versions_told

    ran = versions_told(certificate.evidence)
    said = (str(ran) if ran else "", form_counted(certificate.evidence))
    return " ".join(f"{_capitalised(each)}." for each in said if each)


def _opening_of_reading(certificate: Certificate) -> str:
    """Return the opening of a conditional verdict for which no test and no measurement ran."""
    basis = "reading and runs of a model's code" if _cited_runs(certificate) else "reading alone"
    has_conditions = any(each.claim.severity is not Severity.SUGGESTION for each in certificate.findings)
    return f"From {basis}, only once the findings are settled" if has_conditions else f"No objection from {basis}"


def _text_beside_model(certificate: Certificate, ordered: tuple[Finding, ...]) -> str:
    """Return the answer in the program's words: the verdict, the weightiest finding, the first measurement."""
    if certificate.verdict.kind in _DECIDED:
        return _decision(certificate)
    recorded = [each for each in ordered if each.standing not in UNCONFIRMED]
    # A direct answer precedes findings about something else.
    recorded.sort(key=lambda each: each.claim.rule not in _DIRECT)
    measured = list(_measured(certificate))[:1]
    parts = [*map(_lead, [*recorded, *ordered][:1]), *(f"{each.rstrip('.')}." for each in measured)]
    return " ".join(parts) or f"{_capitalised(_extent(certificate))}."


def _lead(finding: Finding) -> str:
    claim = finding.claim
    mark = f" ({STANDINGS[finding.standing]})" if finding.standing in UNCONFIRMED else ""
    return f"{claim.location}: {_cut(claim.message.rstrip('.'), _LONGEST_SENTENCE)}{mark}."


def _split(certificate: Certificate) -> list[str]:
    """Return the sentences of the summary; agents that handed the task to one another may say the same."""
    own = certificate.summary.removeprefix(f"{certificate.agent}: ")
    said = (_capitalised(_cut(each, _LONGEST_SENTENCE)) for each in _SENTENCE_END.split(own.strip()) if each)
    return list(dict.fromkeys(said))


def _sentences(certificate: Certificate) -> str:
    return " ".join(_split(certificate)[:_MOST_SENTENCES])


def _model_text(certificate: Certificate) -> str:
    """Return the model's summary; empty if it contradicts the verdict or states what could not be verified."""
    text, omitted = _sentences(certificate), len(_split(certificate)) - _MOST_SENTENCES
    is_doubtful = any(caveat.startswith("Unverified: the summary ") for caveat in certificate.caveats)
    if is_doubtful or contradicts(text, certificate.verdict.stance):
        return ""
    return f"{text} ({number_of(omitted, 'more sentence')} in the certificate)" if omitted > 0 else text


def program_summary(certificate: Certificate) -> str:
    """Return the summary of a certificate in the program's words, whoever concluded."""
    return answer_of(certificate).text if _model(certificate) else certificate.summary


def contradicts(text: str, stance: Stance) -> bool:
    """Return whether a text approves what the verdict does not approve, or objects to what it approves."""
    match stance:
        case Stance.FOR | Stance.CONDITIONAL:
            return _OBJECTS.search(text) is not None
        case Stance.UNDECIDED:
            return _OBJECTS.search(text) is not None or _APPROVES.search(text) is not None
        case Stance.AGAINST | Stance.REJECTED | Stance.EMERGENCY:
            return _APPROVES.search(text) is not None


def _stated(certificate: Certificate) -> str:
    """Return what an inspection says about the topics of the request, as the summary begins; empty without one."""
    if not was_inspected(certificate.evidence) or _model(certificate):
        return ""
    own = certificate.summary.removeprefix(f"{certificate.agent}: ").strip()
    first, *others = _SENTENCE_END.split(own)
    # Without a topic in front, the numbers repeat those of the findings.
    if ": " not in first:
        return ""
    weightiest = [each for each in others[:1] if each.startswith("First: ")]
    return " ".join(_cut(each, _LONGEST_SENTENCE) for each in (first, *weightiest))


def _capitalised(sentence: str) -> str:
    # A path or a name keeps its letters.
    is_word = sentence.partition(" ")[0].isalpha()
    return sentence[:1].upper() + sentence[1:] if is_word else sentence


def _extent(certificate: Certificate) -> str:
    """Return the numbers that a judgement rests on: findings, files, tests."""
    recorded = [finding.claim.severity for finding in certificate.findings if finding.standing not in UNCONFIRMED]
    found = counted(recorded) if recorded else "no finding"
    if unconfirmed := len(certificate.findings) - len(recorded):
        found += f" of rules, runs and tests, {unconfirmed} of a model that none of them confirmed,"
    files = [each for each in certificate.examined if certificate.task.is_about(each.path)]
    read = f"{number_of(len(files), 'file')} ({number_of(sum(file.lines for file in files), 'line')})"
    ran = "" if tests_told(certificate.evidence) else "; no test ran"
    return f"{found} in {read}{ran}" if files else "no file was read"


def _facts(certificate: Certificate) -> Iterator[AnswerFact]:
    """Yield the facts of inspections that are no findings, those that are open first."""
    found = facts_of(certificate.evidence)
    # Where calls showed what the code does, lines that share words with the question add nothing.
    is_observed = any(
        each.tool == OBSERVES_CALLS and each.outcome is CallOutcome.COMPLETED for each in certificate.evidence
    )
    for assessment in _STATED:
        for each in found:
            is_beside = is_observed and each.query == QUESTION_DETAILS
            if each.assessment == assessment and not (is_beside or _is_in_text(certificate, each.query)):
                yield AnswerFact(assessment, each.place, _cut(each.text, _LONGEST_FACT))
    for place, text in documents_told(certificate.evidence):
        yield AnswerFact(_DOCUMENTED, place, _cut(text, _LONGEST_FACT))


def _cited_runs(certificate: Certificate) -> tuple[Evidence, ...]:
    """Return the completed runs of a model's code that findings and settled assumptions rest on."""
    cited = {name for finding in certificate.findings for name in finding.evidence}
    cited |= {name for assumption in certificate.assumptions for name in assumption.evidence}
    return tuple(each for each in certificate.evidence if each.id in cited and is_run_of_model(each))


def _run_of_model(certificate: Certificate, evidence: Evidence) -> str:
    """Return what a run of a model's code ended with, and where the findings are that rest on it."""
    places = [str(each.claim.location) for each in certificate.findings if evidence.id in each.evidence]
    shown = ", ".join(list(dict.fromkeys(places))[:_MOST_CITED])
    return f"{_cut(evidence.summary, _LONGEST_FACT)} (code of a model{f', for {shown}' if shown else ''})"


def _measured(certificate: Certificate) -> Iterator[str]:
    measured = [each for each in certificate.evidence if is_measurement(each)]
    # A search for inputs tells something only if nothing else was run.
    shown = [each for each in measured if each.tool != FINDS_INPUTS] or measured
    yield from (each.summary for each in shown)


def _draft(certificate: Certificate) -> tuple[str, ...]:
    """Return the definitions of the last drafted test, as recorded by its run."""
    for each in reversed(certificate.evidence):
        code = each.output.get("code")
        if each.tool == _DRAFTS_TEST and each.outcome is CallOutcome.COMPLETED and isinstance(code, list):
            return tuple(part for part in code if isinstance(part, str))
    return ()


def _before(certificate: Certificate) -> Iterator[str]:
    """Yield what became of earlier findings, by certificate and state; those that were not checked are counted."""
    asked = {finding.claim.fingerprint for finding in findings_asked_about(certificate)}
    beside = {finding.claim.fingerprint for finding in certificate.findings} - asked
    earlier = [each for each in certificate.earlier if each.fingerprint not in beside]
    for name in dict.fromkeys(each.certificate for each in earlier):
        found = [each for each in earlier if each.certificate == name]
        told = []
        for state in EarlierState:
            if of_state := [each for each in found if each.state is state]:
                shown = "" if state is EarlierState.NOT_CHECKED else f": {_named_earlier(of_state)}"
                told.append(f"{len(of_state)} {state}{shown}")
        yield f"{number_of(len(found), 'finding')} of {name}, {'; '.join(told)}"


def _named_earlier(findings: list[EarlierFinding]) -> str:
    more = f" and {len(findings) - _MOST_EARLIER} more" if len(findings) > _MOST_EARLIER else ""
    return ", ".join(_cut(finding.text, _LONGEST_EARLIER) for finding in findings[:_MOST_EARLIER]) + more


def _unknown(certificate: Certificate) -> Iterator[str]:
    is_against = certificate.verdict.stance in {Stance.AGAINST, Stance.REJECTED, Stance.EMERGENCY}
    is_settled = is_against and certificate.verdict.kind in _DECIDED
    # What is missing cannot lift a verdict that findings decided.
    open_gaps = [each for each in certificate.gaps if each.blocks_approval or not is_settled]
    for gap in sorted(open_gaps, key=lambda each: not each.blocks_approval):
        yield _cut(f"{gap.what}; {gap.why}" if gap.why else gap.what, _LONGEST_UNKNOWN)


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0] or line[:most]} ..."
