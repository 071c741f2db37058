"""Verify a certificate's bytes against its view and the policy. Read-only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import TYPE_CHECKING

from esper_agents.archive.verification.files import SubjectCheck, SubjectState, verify_subjects
from esper_agents.certificates.check import Check, CheckOutcome, claim
from esper_agents.certificates.json_conversion import to_json
from esper_agents.certificates.policy.question_type import kind_of, kinds_text
from esper_agents.certificates.policy.verdict_ceiling import ceiling_of, load_policy, worst
from esper_agents.certificates.statement import digest_of, digest_of_value, parse
from esper_agents.certificates.views.html import html_layout, is_known_html_layout, render_html
from esper_agents.certificates.views.markdown import is_known_layout, layout, render_markdown
from esper_agents.domain.finding import Standing
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import QuestionType, Stance, status_for
from esper_agents.errors import DefinitionError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.domain.certificate import Certificate

__all__ = [
    "Check",
    "CheckOutcome",
    "SubjectCheck",
    "SubjectState",
    "verify_page",
    "verify_statement",
    "verify_subjects",
    "verify_view",
]


def verify_view(data: bytes, view: str) -> tuple[Check, ...]:
    """Verify that Markdown is the view of a statement's bytes: the hash in its signature block, then every byte.

    A view of an earlier version is compared with the rendering of its layout. If the layout is unknown here, only the
    hash is compared.
    """
    return _verify_rendering(data, view, _MARKDOWN)


def verify_page(data: bytes, page: str) -> tuple[Check, ...]:
    """Verify that HTML is the view of a statement's bytes, as `verify_view` does for Markdown."""
    return _verify_rendering(data, page, _HTML)


@dataclass(frozen=True, slots=True)
class _Rendering:
    """Functions of one view format.

    Attributes:
        render: Renders a statement's bytes in a named known layout.
        layout: Returns the name of this version's layout.
        is_known: Returns whether a layout of that name can be rendered.
        named_hash: Finds the digest that a view names.
        named_layout: Finds the layout that a view names.
    """

    render: Callable[[bytes, str], str]
    layout: Callable[[], str]
    is_known: Callable[[str], bool]
    named_hash: re.Pattern[str]
    named_layout: re.Pattern[str]


_MARKDOWN = _Rendering(
    render_markdown,
    layout,
    is_known_layout,
    re.compile(r"^Certificate Hash: (.*?)\r?$", re.MULTILINE),
    re.compile(r"^View: (.*?)\r?$", re.MULTILINE),
)
_HTML = _Rendering(
    render_html,
    html_layout,
    is_known_html_layout,
    re.compile(r'<p class="hash"><code>(.*?)</code></p>'),
    re.compile(r'<meta name="generator" content="esper-agents, layout (.*?)">'),
)


def _verify_rendering(data: bytes, view: str, form: _Rendering) -> tuple[Check, ...]:
    layouts = form.named_layout.findall(view)
    named = layouts[-1] if layouts else form.layout()
    try:
        expected = form.render(data, named if form.is_known(named) else form.layout())
    except IntegrityError as error:
        return (Check("record", CheckOutcome.FAILS, error.problem),)
    hashes = form.named_hash.findall(view)
    digest = digest_of(data)
    said = " and ".join(hashes) or "no hash"
    wrong = [] if hashes == [digest] else [f"view names {said}, statement has {digest}"]
    return (
        Check("record", CheckOutcome.HOLDS, "the bytes are a certificate"),
        claim("hash in the view", wrong, digest),
        _compared(expected, view, named, form),
    )


def verify_statement(data: bytes, policy_text: str, kinds: str = "") -> tuple[Check, ...]:
    """Verify that a certificate's verdict follows from its recorded evidence.

    Args:
        data: Bytes of the statement.
        policy_text: Policy it was issued under; with another policy the ceiling cannot be derived again.
        kinds: Trigger table of its question type; the shipped one if empty.
    """
    try:
        certificate = parse(data)
    except IntegrityError as error:
        return (Check("record", CheckOutcome.FAILS, error.problem),)
    return (
        Check("record", CheckOutcome.HOLDS, "the bytes are a certificate"),
        _kind_check(certificate, kinds or kinds_text()),
        *_policy_checks(certificate, policy_text),
        claim("verdict", _verdict_problems(certificate), f"{certificate.verdict.status} is not above its ceiling"),
        claim("citations", _citation_problems(certificate), _cited(certificate)),
        claim("evidence", _evidence_problems(certificate), "all referenced evidence is included"),
    )


def _compared(expected: str, view: str, named: str, form: _Rendering) -> Check:
    if view == expected:
        return Check("view", CheckOutcome.HOLDS, "view matches the statement, byte for byte")
    if not form.is_known(named):
        detail = f"rendered with layout {named[:40]}; this version has {form.layout()}"
        return Check("view", CheckOutcome.CANNOT_DECIDE, detail)
    pairs = enumerate(zip_longest(expected.split("\n"), view.split("\n")), start=1)
    line = next(number for number, (wanted, found) in pairs if wanted != found)
    return Check("view", CheckOutcome.FAILS, f"view differs from the statement from line {line} on")


def _kind_check(certificate: Certificate, kinds: str) -> Check:
    named = certificate.question_kinds_sha256
    if named != sha256(kinds.encode("utf-8", "surrogatepass")).hexdigest():
        detail = f"trigger table sha256:{named[:64]} is not available" if named else "statement names no trigger table"
        return Check("kind", CheckOutcome.CANNOT_DECIDE, detail)
    asked = kind_of(certificate.task.request, kinds).kind
    kind = certificate.task.kind
    if kind is QuestionType.ADVICE and asked is not kind:
        # "Is `ignore_index` right?" has a word for an approval, and is a question about an option: what it is about is
        # not derived from its words alone. Advice approves nothing and counts for no gate, so it claims less.
        return claim("kind", [], f"advice, which approves nothing; words of the request ask for {asked}")
    wrong = [] if asked is kind else [f"the request asks for {asked}, not for {kind}"]
    return claim("kind", wrong, f"{asked}, derived again from the request")


def _policy_checks(certificate: Certificate, policy_text: str) -> tuple[Check, ...]:
    recorded = certificate.verdict.ceiling
    digest = sha256(policy_text.encode("utf-8", "surrogatepass")).hexdigest()
    if digest != recorded.policy_sha256:
        detail = f"issued under policy sha256:{recorded.policy_sha256[:64]}; the available one is sha256:{digest}"
        return (
            Check("policy", CheckOutcome.CANNOT_DECIDE, detail),
            Check("ceiling", CheckOutcome.CANNOT_DECIDE, "requires the policy that the certificate was issued under"),
        )
    try:
        derived = ceiling_of(load_policy(policy_text), certificate)
    except DefinitionError as error:
        return (Check("policy", CheckOutcome.CANNOT_DECIDE, error.problem),)
    # The record contains plain text only.
    same = to_json(derived) == to_json(recorded)
    wrong = [] if same else [f"recorded status {recorded.status}, recomputed status {derived.status}"]
    if not same and recorded.status is derived.status:
        wrong = ["applied policy rules differ from the recorded ones"]
    return (
        Check("policy", CheckOutcome.HOLDS, f"sha256:{digest}"),
        claim("ceiling", wrong, f"{derived.status} ({derived.stance}), recomputed from the statement"),
    )


def _verdict_problems(certificate: Certificate) -> list[str]:
    verdict = certificate.verdict
    kind, stance, top = verdict.kind, verdict.stance, verdict.ceiling
    broken = {
        "the verdict has another question type than the task": kind is not certificate.task.kind,
        f"{verdict.status} is not the {kind} status for {stance}": verdict.status is not status_for(kind, stance),
        f"{top.status} is not the {kind} status for {top.stance}": top.status is not status_for(kind, top.stance),
        f"{stance} is above the ceiling {top.stance}": worst(kind, stance, top.stance) is not stance,
        "verdict is below its ceiling without a reason": stance is not top.stance and not verdict.below_ceiling,
        "verdict is conditional without a condition": stance is Stance.CONDITIONAL and not verdict.conditions,
        "verdict is unconditional and has conditions": (
            stance is Stance.FOR and kind is not QuestionType.ADVICE and bool(verdict.conditions)
        ),
    }
    return [problem for problem, holds in broken.items() if holds]


def _cited(certificate: Certificate) -> str:
    """Return what is true of the citations of a certificate without a citation problem."""
    unverified = sum(finding.standing is Standing.UNVERIFIED for finding in certificate.findings)
    said = "every finding cites a line of a file that was read"
    return f"{said}, except {unverified} that the certificate marks as unverified" if unverified else said


def _citation_problems(certificate: Certificate) -> list[str]:
    lines: dict[str, int] = {}
    for file in certificate.examined:
        # A file that changed during the session is listed twice.
        lines[file.path] = max(file.lines, lines.get(file.path, 0))
    problems = []
    for finding in certificate.findings:
        if finding.standing is Standing.UNVERIFIED:
            # The certificate says that nothing supports it.
            continue
        where = finding.claim.location
        last = max(where.end_line, where.line)
        if where.path not in lines:
            problems.append(f"{where} is not a file that was read")
        elif where.line < 1 or last > lines[where.path]:
            long = number_of(lines[where.path], "line")
            problems.append(f"{where.path} has {long}, but {where.line} to {last} is cited")
    return problems


def _evidence_problems(certificate: Certificate) -> list[str]:
    known = {each.id for each in certificate.evidence}
    read = {(file.path, file.sha256) for each in certificate.evidence for file in each.examined}
    supported = [each for each in certificate.findings if each.standing is not Standing.UNVERIFIED]
    problems = [f"finding {each.id} has no evidence" for each in supported if not each.evidence]
    cited = [(finding.id, id_) for finding in certificate.findings for id_ in finding.evidence]
    cited += [("an assumption", id_) for assumption in certificate.assumptions for id_ in assumption.evidence]
    problems += [f"{who} refers to evidence {id_}, which is not included" for who, id_ in cited if id_ not in known]
    problems += [
        f"{what} of {each.id} do not match their digest"
        for each in certificate.evidence
        for what, value, digest in (
            ("arguments", each.arguments, each.arguments_sha256),
            ("output data", each.output, each.output_sha256),
        )
        if digest_of_value(value) != digest
    ]
    unread = [file.path for file in certificate.examined if (file.path, file.sha256) not in read]
    return problems + [f"no recorded call read {path}" for path in unread]
