"""Page of one certificate: verdict, findings, evidence, verification, history, changes."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from esper_agents.api import CheckOutcome, SubjectState
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EsperError, ExitCode
from esper_agents.web.guard import CONTENT_POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.requests import Request

    from esper_agents.api import (
        CertificateDiff,
        CertificateSummary,
        CertifiedSource,
        FindingHistory,
        OpenProject,
        SubjectCheck,
        VerificationResult,
    )
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.finding import Finding
    from esper_agents.web.site import ArchiveSite

_AROUND = 2
_MOST_FINDINGS = 40
_MOST_RELATED = 10
_CHANGED = frozenset((SubjectState.STALE, SubjectState.MISSING))
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_GOOD = "good"
_RESULTS = {
    ExitCode.DONE: (_GOOD, "Verified {when}: signature, log, evidence and files match."),
    ExitCode.TAMPERED: ("stop", "Verification failed: the certificate, its log or its evidence was modified."),
    ExitCode.UNDECIDED: ("open", "Verification cannot decide."),
}


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """Finding with its source.

    Attributes:
        finding: The finding.
        first: Number of the first shown line.
        lines: Source lines around it, as certified; empty if they are not available.
        origin: Origin of these lines, or the reason why there are none.
        mark: Class that marks the line of the finding.
        same: Other certificates with the same finding, newest first.
        gone_in: Later certificates of the file without it, newest first.
    """

    finding: Finding
    first: int
    lines: str
    origin: str
    mark: str
    same: tuple[CertificateSummary, ...]
    gone_in: tuple[CertificateSummary, ...]


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """Check of a verification.

    Attributes:
        name: Name of the check, or path of the file.
        tone: Good, caution, stop or open.
        state: Passed, failed or unknown; for a file its state.
        detail: Details in one line.
    """

    name: str
    tone: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class ShownVerification:
    """Result of a verification at the time of the request.

    Attributes:
        tone: Good, caution, stop or open.
        text: The result in one sentence.
        result: The result.
        open: Checks that did not pass.
        passed: Checks that passed.
    """

    tone: str
    text: str
    result: VerificationResult
    open: tuple[ShownCheck, ...]
    passed: tuple[ShownCheck, ...]


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the page of a certificate."""
    entry = await project.certificates.get(request.path_params["certificate"])
    presentation = await project.browsing.presentation(entry.id)
    certificate = presentation.view.certificate
    verification = await site.verify(project, entry)
    history = await project.browsing.question_history(entry, certificate)
    ending = (await project.certificates.endings((entry,))).get(entry.id)
    return await site.render(
        project,
        "certificate.html.j2",
        "certificates",
        entry=entry,
        view=presentation.view,
        answer=presentation.view.answer,
        because=presentation.view.reasons,
        ending=str(ending) if ending is not None else "",
        tone=presentation.tone if entry.is_trusted and ending is None else "open",
        signer_key=(key := (await project.browsing.keys_of((entry,))).get(entry.id, "")),
        signer=site.key_names(project).get(key, key or "unknown"),
        measurements=presentation.measurements,
        numbers={each.id: number for number, each in enumerate(presentation.view.evidence.shown, 1)},
        anchors={
            (str(each.claim.location), each.claim.rule): each.id for each in certificate.findings[:_MOST_FINDINGS]
        },
        findings=await _findings(project, entry, certificate),
        hidden=max(len(certificate.findings) - _MOST_FINDINGS, 0),
        verification=_shown(verification, is_exported=site.exported is not None),
        explanation=(await project.certificates.explain(entry.id)).outline(),
        history=history,
        with_lines=_files_with_lines(verification.files, is_exported=site.exported is not None),
        unchanged=_unchanged(verification.files, is_exported=site.exported is not None),
        diff=await _diff(project, history.previous, entry),
        since=await _diff(project, entry, history.newest),
        changed=[file for file in verification.files if file.state in _CHANGED],
    )


async def document(request: Request, _site: ArchiveSite, project: OpenProject) -> Response:
    """Return the HTML view of a certificate, with its own style sheet."""
    text = await project.certificates.html(request.path_params["certificate"])
    style = _STYLE.search(text)
    digest = base64.b64encode(sha256((style.group(1) if style else "").encode()).digest()).decode()
    policy = CONTENT_POLICY.replace("style-src 'self'", f"style-src 'sha256-{digest}'")
    return HTMLResponse(text, headers={"content-security-policy": policy})


async def record(request: Request, _site: ArchiveSite, project: OpenProject) -> Response:
    """Return the bytes of the signed statement of a certificate, as a file."""
    entry = await project.certificates.get(request.path_params["certificate"])
    data = await project.certificates.record(entry.id)
    headers = {"content-disposition": f'attachment; filename="{entry.id}.json"'}
    return Response(data, media_type="application/json", headers=headers)


async def _findings(project: OpenProject, entry: CertificateSummary, certificate: Certificate) -> list[ShownFinding]:
    shown = certificate.findings[:_MOST_FINDINGS]
    paths = {finding.claim.location.path for finding in shown}
    sources = await project.browsing.sources(certificate, paths)
    related = await project.browsing.certificates_of(sorted(paths), most=_MOST_RELATED, trusted_only=True)
    histories = {
        history.finding.claim.fingerprint: history
        for path, entries in related.items()
        for history in await project.browsing.finding_histories(path, entries)
    }
    return [_shown_finding(finding, entry, sources, histories) for finding in shown]


def _shown_finding(
    finding: Finding,
    entry: CertificateSummary,
    sources: Mapping[str, CertifiedSource],
    histories: Mapping[str, FindingHistory],
) -> ShownFinding:
    place, history = finding.claim.location, histories.get(finding.claim.fingerprint)
    source = sources.get(place.path)
    first, lines = 1, ""
    if source is not None and source.lines is not None:
        first = max(place.line - _AROUND, 1)
        last = max(place.end_line, place.line) + _AROUND
        lines = "\n".join(source.lines[first - 1 : min(last, first + 4 * _AROUND)])
    others = tuple(each for each in history.present if each.id != entry.id) if history else ()
    gone = history.absent if history else ()
    origin = source.origin if source else "not available: the certificate does not list the file"
    return ShownFinding(finding, first, lines, origin, f"mark{place.line - first + 1}", others, gone)


def _files_with_lines(files: Sequence[SubjectCheck], *, is_exported: bool) -> frozenset[str]:
    """Return the files whose pages show the certified lines; exported pages contain no whole file."""
    unchanged = (file.path for file in files if file.state is SubjectState.VALID)
    return frozenset() if is_exported else frozenset(unchanged)


def _unchanged(files: Sequence[SubjectCheck], *, is_exported: bool) -> str:
    """Return in a sentence whether the files of a certificate, none of which changed, are as certified."""
    if not files:
        return "It certifies no files."
    unknown = sum(file.state is not SubjectState.VALID for file in files)
    if unknown:
        return f"{number_of(unknown, 'file')} of {len(files)} cannot be compared."
    when = "were" if is_exported else "are"
    return f"Its files {when} as certified{' at the export' if is_exported else ''}."


def _shown(result: VerificationResult, *, is_exported: bool) -> ShownVerification:
    tone, text = _RESULTS.get(result.exit_code, _RESULTS[ExitCode.UNDECIDED])
    text = text.format(when="at the export" if is_exported else "now")
    if result.exit_code is ExitCode.NOT_CURRENT:
        then = "were at the export" if is_exported else "are now"
        tone, text = (
            "caution",
            f"Authentic, but {result.currency}: it does not count for the files as they {then}.",
        )
    checks = tuple(_checks(result))
    passed = tuple(check for check in checks if check.tone == _GOOD)
    return ShownVerification(tone, text, result, tuple(check for check in checks if check.tone != _GOOD), passed)


def _checks(result: VerificationResult) -> Iterator[ShownCheck]:
    states = {
        CheckOutcome.HOLDS: (_GOOD, "passed"),
        CheckOutcome.FAILS: ("stop", "failed"),
        CheckOutcome.CANNOT_DECIDE: ("open", "unknown"),
    }
    for later in result.later:
        detail = f"by {later.by} at {later.at}{f': {later.reason}' if later.reason else ''}"
        yield ShownCheck("later entry", "caution", str(later.ending), detail)
    for check in (
        *result.objections,
        *result.genuine,
        *result.complete,
        *result.verdict,
        *result.citations,
        *result.countersigned,
    ):
        yield ShownCheck(check.name, *states[check.outcome], check.detail)
    for file in result.files:
        is_valid = file.state is SubjectState.VALID
        detail = "the working file has the certified digest" if is_valid else file.detail
        yield ShownCheck(file.path, _GOOD if is_valid else "caution", str(file.state), detail)


async def _diff(
    project: OpenProject, before: CertificateSummary | None, after: CertificateSummary | None
) -> CertificateDiff | None:
    """Return the changes between two certificates; None if there is only one, or one was modified."""
    if before is None or after is None:
        return None
    try:
        return await project.certificates.diff(before.id, after.id)
    except EsperError:
        return None
