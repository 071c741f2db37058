"""Tools for certificates: search, show, verify, and the gate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from mcp_types import CallToolResult
from pydantic import Field

from esper_agents.errors import ExitCode, NotFoundError, UsageError
from esper_agents.mcp_server.calls import READS, ToolCallContext, answered, project_of
from esper_agents.mcp_server.certificate_rows import answer_parts, certificate_row
from esper_agents.mcp_server.paging import page_of
from esper_agents.mcp_server.results import (
    CertificateAnswer,
    CertificatesAnswer,
    CoverageRow,
    GateAnswer,
    VerificationAnswer,
    clipped,
)
from esper_agents.mcp_server.review_tools import Cursor, Diff, Limit, Paths
from esper_agents.mcp_server.suggested_calls import SuggestedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import FileCoverage, VerificationResult

CertificateId = Annotated[str, Field(description="`crt_` identifier, a suffix of it, or `latest`")]
_MOST_CHECKS, _MOST_FILES, _MOST_RULES = 10, 20, 6
# More files are not listed in a call; without paths it is about the whole project.
_MOST_NAMED = 5
_RESULTS = {
    ExitCode.DONE: "valid",
    ExitCode.TAMPERED: "modified",
    ExitCode.NOT_CURRENT: "not current",
    ExitCode.UNDECIDED: "undecided",
}


async def search_certificates(
    context: ToolCallContext,
    words: Annotated[str, Field(description="Words that must all occur; empty lists the newest")] = "",
    status: Annotated[list[str], Field(description="Only these statuses, such as APPROVED")] = [],
    path: Annotated[str, Field(description="Only certificates that read this file")] = "",
    agent: Annotated[str, Field(description="Only certificates of this agent")] = "",
    limit: Limit = 10,
    cursor: Annotated[str, Field(description="`next_cursor` of the previous page")] = "",
) -> Annotated[CallToolResult, CertificatesAnswer]:
    """Search the certificates of the project, newest first; look here before repeating a judgement."""
    from esper_agents.api import read_filter

    project = project_of(context)
    opened = await project.opened()
    read = project.inside(path).relative_to(project.root).as_posix() if path else ""
    wanted = replace(read_filter(statuses=status, agent=agent, file=read), words=words)
    try:
        if words:
            hits = await opened.certificates.search(wanted, before=cursor, limit=limit + 1, trusted_only=True)
            found = [certificate_row(hit.entry, hit.passage.text if hit.passage else "") for hit in hits]
        else:
            entries = await opened.certificates.list(wanted=wanted, before=cursor, limit=limit + 1, trusted_only=True)
            found = [certificate_row(entry) for entry in entries]
    except NotFoundError as error:
        if error.what != "certificate":
            raise
        found = []
    shown = found[:limit]
    return answered(CertificatesAnswer(tuple(shown), shown[-1].id if len(found) > limit else ""))


async def show_certificate(
    context: ToolCallContext, certificate: CertificateId = "latest"
) -> Annotated[CallToolResult, CertificateAnswer]:
    """Show a certificate: verdict, reasons, measurements, gaps, and the policy rules that set the status."""
    project = project_of(context)
    opened = await project.opened()
    entry = await opened.certificates.get_trusted(certificate)
    parts = answer_parts(answer := await opened.certificates.answer(entry.id), project)
    why = [text for _, text in (await opened.certificates.explain(entry.id)).outline()]
    del parts["certificate"]
    return answered(
        CertificateAnswer(
            id=entry.id,
            kind=str(entry.kind),
            agent=entry.agent,
            issued_at=entry.issued_at,
            subject=clipped(answer.subject),
            rules=tuple(map(clipped, why[:_MOST_RULES])),
            **parts,
        )
    )


async def verify_certificate(
    context: ToolCallContext,
    certificate: Annotated[
        str, Field(description="`crt_` identifier, a suffix, `latest`, or the path of a published file")
    ] = "latest",
    rev: Annotated[str, Field(description="Commit or branch whose files to compare with; empty: the work tree")] = "",
) -> Annotated[CallToolResult, VerificationAnswer]:
    """Verify signature, log entry, verdict and files of a certificate; writes nothing."""
    from esper_agents.api import CheckOutcome, SubjectState
    from esper_agents.api import verify_certificate as verify

    project = project_of(context)
    named = str(project.inside(certificate)) if "/" in certificate or "." in certificate else certificate
    found = await verify(named, project.root, revision=rev)
    checks = (*found.genuine, *found.complete, *found.verdict, *found.citations)
    failed = [
        f"{check.name}: {check.outcome}, {check.detail}" for check in checks if check.outcome is not CheckOutcome.HOLDS
    ]
    changed = [f"{file.path}: {file.state}" for file in found.files if file.state is not SubjectState.VALID]
    return answered(
        VerificationAnswer(
            id=found.certificate.id if found.certificate else "",
            result=_RESULTS.get(found.exit_code, found.exit_code.name.lower()),
            exit_code=int(found.exit_code),
            freshness=str(found.currency),
            failed=tuple(map(clipped, failed[:_MOST_CHECKS])),
            passed=len(checks) - len(failed),
            changed_files=tuple(map(clipped, changed[:_MOST_FILES])),
            more_files=max(0, len(changed) - _MOST_FILES),
            commit=found.commit,
            unchanged_at=found.unchanged_at,
            next=_after(found),
        )
    )


def _after(found: VerificationResult) -> SuggestedCall | None:
    """Return the call that makes a certificate, or its check, current again."""
    issued = found.certificate
    if issued is None or found.exit_code is not ExitCode.NOT_CURRENT:
        return None
    if found.unchanged_at:
        return SuggestedCall("verify_certificate", {"certificate": issued.id, "rev": found.unchanged_at})
    if found.later:
        return None
    return SuggestedCall("submit_task", {"rerun": issued.id})


async def gate(
    context: ToolCallContext,
    paths: Paths = [],
    diff: Diff = "",
    limit: Limit = 20,
    cursor: Cursor = "",
) -> Annotated[CallToolResult, GateAnswer]:
    """Check whether valid certificates cover the files, as CI does with `esper gate`."""
    from esper_agents.api import CoverageState, check_coverage

    if diff.startswith("-"):
        raise UsageError(f"{diff[:80]!r} is not a revision", remedy="name a branch, a tag or a commit")
    project = project_of(context)
    named = [project.inside(path, is_absent_allowed=".." in diff) for path in paths]
    found = await check_coverage(project.root, named, since=diff)
    worst = list(CoverageState)
    bad = [each for each in found.coverage if each.standing is not CoverageState.COVERED]
    bad.sort(key=lambda each: (worst.index(each.standing), each.path))
    rows = [
        CoverageRow(clipped(each.path, 200), str(each.standing), clipped(each.why, 200), each.certificate)
        for each in bad
    ]
    page = page_of(rows, (paths, diff), cursor=cursor, limit=limit)
    total = len(found.coverage)
    return answered(
        GateAnswer(
            found.exit_code is ExitCode.DONE,
            int(found.exit_code),
            total - len(bad),
            total,
            page.rows,
            page.next_cursor,
            found.commit,
            _judge(bad, diff if found.commit else ""),
        )
    )


def _judge(bad: Sequence[FileCoverage], diff: str) -> SuggestedCall | None:
    """Return the call that judges the files without a valid certificate; None if there is none."""
    from esper_agents.api import CoverageState

    missing = [each.path for each in bad if each.standing in {CoverageState.UNCOVERED, CoverageState.NOT_CURRENT}]
    if not missing:
        return None
    if diff:
        return SuggestedCall("submit_task", {"request": "is this change safe to merge?", "diff": diff})
    named = list(dict.fromkeys(missing)) if len(missing) <= _MOST_NAMED else []
    return SuggestedCall("submit_task", {"request": "review this training code", "paths": named})


# Tools of this module, with what they may do.
TOOLS = (
    (search_certificates, READS),
    (show_certificate, READS),
    (verify_certificate, READS),
    (gate, READS),
)
