"""`esper certificates verify`: options and output of certificate verification."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.api import CheckOutcome, combine_outcomes
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import (
    AllowOpenClusterOption,
    ClusterOption,
    JsonOption,
    OnOption,
    WitnessOption,
    WorkPlace,
    refuse_cluster_options,
)
from esper_agents.cli.terminal import echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import replacements
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.api import ArchiveVerification, Check, VerificationResult
    from esper_agents.domain.certificate import Certificate

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_MOST_SHOWN = 20


def verify(
    certificate: Annotated[
        str, typer.Argument(metavar="ID|FILE", help="Certificate ID, unique suffix, `latest`, or file")
    ] = "latest",
    everything: Annotated[bool, typer.Option("--all", help="Verify all certificates and the transparency log")] = False,
    project: Annotated[
        Path | None,
        typer.Option("--project", metavar="PATH", help="Project directory [default: of the file, else current]"),
    ] = None,
    revision: Annotated[
        str, typer.Option("--rev", metavar="REV", help="Compare with a commit instead of the work tree")
    ] = "",
    witness: WitnessOption = None,
    on: OnOption = WorkPlace.HERE,
    cluster: ClusterOption = "",
    allow_open_cluster: AllowOpenClusterOption = False,
    as_json: JsonOption = False,
) -> None:
    """Verify signature, log, verdict and files.

    Checks that the signature and the log entry are authentic, that the verdict follows from the evidence, and that the
    certified files are unchanged in the work tree, or at the commit of --rev, which needs no checkout. Writes nothing.
    With --require-witness, the log entry must be in a checkpoint that this witness cosigned.

    Exits with 0 if valid; 7 if modified, or if the log contradicts what a witness cosigned; 8 if stale, superseded or
    revoked; 4 if a check is undecided, such as a signature by an untrusted key or a missing cosignature. With --all,
    stale, superseded and revoked certificates are listed and do not change the exit code; 8 means that published files
    were deleted. With --all --on ray, the nodes of a Ray cluster verify parts of the archive; the result is the same.

    Examples:
      esper certificates verify latest
      esper certificates verify 12faba12a09f --project ~/my-model
      esper certificates verify code_review_train_20260131_093000_12faba12a09f.md
      esper certificates verify latest --rev fix/loss
      esper certificates verify --all
      esper certificates verify latest --require-witness SHA256:sXNYbnW8eGyK3VzvgNix7e4mgjCz0+X7ePOgsq0s9bs
    """
    from esper_agents.api import verify_certificate

    if everything and revision:
        raise UsageError("--all compares with the work tree", remedy="name one certificate with --rev")
    refuse_cluster_options(on, cluster, allow_open=allow_open_cluster)
    if on is WorkPlace.RAY and not everything:
        raise UsageError("one certificate is verified here", remedy="add --all, or leave out --on ray")
    if everything:
        wanted = (project or Path(), witness or ())
        if on is WorkPlace.RAY:
            from esper_agents.api import verify_archive_on_ray

            working = verify_archive_on_ray(*wanted, cluster=cluster, allow_open=allow_open_cluster)
        else:
            from esper_agents.api import verify_archive

            working = verify_archive(*wanted)
        raise typer.Exit(_report_all(asyncio.run(working), as_json=as_json))
    verified = asyncio.run(verify_certificate(certificate, project, revision=revision, witnesses=witness or ()))
    if as_json:
        echo_json(_as_data(verified))
    else:
        _report(verified)
    raise typer.Exit(verified.exit_code)


def _report_all(whole: ArchiveVerification, *, as_json: bool) -> ExitCode:
    code = whole.exit_code
    if as_json:
        certificates = [{"id": certificate.id, **_as_data(certificate.verified)} for certificate in whole.certificates]
        faults = [asdict(each) for each in whole.faults]
        echo_json(
            {
                "certificates": certificates,
                "log": {"entries": whole.entries, "faults": faults},
                "uncovered": whole.uncovered,
                "missing": [str(each) for each in whole.missing],
                "exit_code": int(code),
            }
        )
        return code
    for certificate in whole.certificates:
        found = certificate.verified
        words = [("genuine", found.genuine), ("complete", found.complete), ("verdict", found.verdict)]
        words += [("witnessed", found.witnessed)] if found.witnessed else []
        words += [("objections", found.objections)] if found.objections else []
        told = ", ".join(f"{name} {combine_outcomes(*checks)}" for name, checks in words)
        outline(f"{certificate.id}: {told}, {found.currency}")
        if found.overridden is not None:
            outline(str(found.overridden), 1)
        checks = (*found.genuine, *found.complete, *found.verdict, *found.citations)
        shown = [check for check in checks if check.outcome is CheckOutcome.FAILS]
        shown += [check for check in (*found.witnessed, *found.objections) if check.outcome is not CheckOutcome.HOLDS]
        for failed in shown:
            outline(f"{failed.name} {failed.outcome}: {_short(failed.detail)}", 1)
    broken = number_of(len(whole.faults), "fault") if whole.faults else "no faults"
    outline(f"log: {number_of(whole.entries, 'entry', 'entries')}, {broken}")
    for fault in whole.faults:
        outline(f"{fault.kind} at {fault.where}: {_short(fault.detail)}", 1)
    if whole.uncovered:
        issued = number_of(whole.uncovered, "certificate")
        outline(f"events and notes: not covered for {issued}, issued by version 0.1.0, which signed no digest of them")
    _report_published(whole)
    return code


def _report_published(whole: ArchiveVerification) -> None:
    if not whole.certificates:
        return
    if not whole.is_published:
        outline("published: no certificate of this archive is published in this tree")
    elif whole.missing:
        outline(f"published: {number_of(len(whole.missing), 'file')} missing")
        for path in whole.missing[:_MOST_SHOWN]:
            outline(str(path), 1)
        if len(whole.missing) > _MOST_SHOWN:
            outline(f"and {len(whole.missing) - _MOST_SHOWN} more: --json names them all", 1)
    else:
        outline("published: no file missing")
        return
    outline_command("next", "esper certificates repair")


def _report(verified: VerificationResult) -> None:
    issued = verified.certificate
    if issued is not None:
        outline(f"{issued.id}: {issued.verdict.status} for {issued.component}, by {issued.agent}")
    if verified.overridden is not None:
        outline(str(verified.overridden))
    _report_group("genuine", verified.genuine)
    if not verified.is_in_archive:
        outline("not in the local archive; verified by signature and inclusion proof only", 1)
    _report_group("complete", verified.complete)
    if verified.witnessed:
        _report_group("witnessed", verified.witnessed)
    if verified.objections:
        _report_group("objections", verified.objections)
    if verified.missing and verified.is_published:
        missing = ", ".join(each.name for each in verified.missing)
        outline(f"missing next to it: {missing}; `esper certificates repair` writes them", 1)
    if verified.countersigned:
        _report_group("countersigned", verified.countersigned)
    _report_group("verdict", verified.verdict)
    _report_group("citations", verified.citations)
    _report_currency(verified)
    if verified.exit_code:
        outline_command("next", _next(verified))


def _report_group(label: str, checks: tuple[Check, ...]) -> None:
    whole = combine_outcomes(*checks)
    outline(f"{label}: {whole}")
    for check in checks:
        # If not all checks passed, each line states its result.
        outline(f"{check.name}{'' if whole is CheckOutcome.HOLDS else f' {check.outcome}'}: {_short(check.detail)}", 1)
    if not checks:
        outline("not checked", 1)


def _report_currency(verified: VerificationResult) -> None:
    from esper_agents.api import SubjectState

    at = f" at commit {verified.commit[:12]}" if verified.commit else ""
    outline(f"current: {verified.currency} in {verified.root}{at}")
    if verified.unchanged_at:
        outline(
            f"it covers commit {verified.unchanged_at[:12]}, which is not checked out; its files are unchanged there", 1
        )
    for later in verified.later:
        outline(
            f"{later.ending} by {later.by} at {later.at[:16].replace('T', ' ')} UTC: {later.reason or 'no reason'}", 1
        )
    if verified.place is not None and verified.place.outcome is not CheckOutcome.HOLDS:
        outline(f"{verified.place.name}: {verified.place.detail}", 1)
    changed = [each for each in verified.files if each.state is not SubjectState.VALID]
    for file in changed:
        outline(f"{file.path} is {file.state}: {_short(file.detail)}", 1)
        for citation in file.citations:
            outline(f"{citation.name}: {citation.detail}", 2)
    count = len(verified.files)
    unchanged = f"{count - len(changed)} of {number_of(count, 'file')} unchanged"
    outline(unchanged if count else "no files certified", 1)


def _short(text: str) -> str:
    """Return text with shortened digests; the JSON has the full ones."""
    return _DIGEST.sub(r"\1", text)


def _next(verified: VerificationResult) -> str:
    from esper_agents.api import FreshnessState

    issued = verified.certificate
    if verified.is_repairable:
        return "esper certificates repair"
    if issued is None or verified.exit_code is ExitCode.TAMPERED:
        return "do not use this certificate; `esper certificates list` shows the archived ones"
    if verified.currency is FreshnessState.SUPERSEDED:
        return f"esper certificates show {verified.later[-1].by} # the superseding certificate"
    if verified.unchanged_at:
        return f"esper certificates verify {issued.id} --rev {verified.unchanged_at[:12]}"
    if verified.exit_code is ExitCode.NOT_CURRENT:
        return f"esper submit --rerun {issued.id}"
    return _next_unsure(verified, issued)


def _next_unsure(verified: VerificationResult, issued: Certificate) -> str:
    from esper_agents.api import FreshnessState

    if advice := _next_of_others(verified, issued):
        return advice
    if undecided := {each.name for each in verified.genuine if each.outcome is CheckOutcome.CANNOT_DECIDE}:
        compare = f"compare its views with what wrote them: pip install {_issuer(issued)}"
        trust = "get the fingerprint of the key from its owner, then trust it: esper keys trust --help"
        return compare if undecided == {"view"} else trust
    if verified.currency is FreshnessState.CANNOT_DECIDE:
        return "pass the certified checkout with --project, and make its files readable"
    if combine_outcomes(*verified.citations) is CheckOutcome.CANNOT_DECIDE:
        return "compare the lines that it cites with the files yourself: esper certificates show"
    if combine_outcomes(*verified.verdict) is CheckOutcome.CANNOT_DECIDE:
        return f"check it with what issued it: pip install {_issuer(issued)}"
    return "delete the view and regenerate it: esper certificates path"


def _next_of_others(verified: VerificationResult, issued: Certificate) -> str:
    """Return what to do about a missing cosignature or an objection; empty if there is neither."""
    if verified.witnessed and combine_outcomes(*verified.witnessed) is CheckOutcome.CANNOT_DECIDE:
        return "ask the owner of the log for a checkpoint that the witness cosigned: esper log --help"
    if not verified.objections:
        return ""
    worse = replacements(issued.verdict.kind, issued.verdict.status)
    status = worse[-1] if worse else "STATUS"
    return f"ask its signer to revoke it, or object: esper certificates override {issued.id} --status {status}"


def _issuer(issued: Certificate) -> str:
    version = issued.environment.get("esper-agents")
    return f"esper-agents=={version}" if version else "the version of esper-agents that its view names"


def _as_data(verified: VerificationResult) -> dict[str, Any]:
    def group(checks: tuple[Check, ...]) -> dict[str, Any]:
        return {"outcome": combine_outcomes(*checks), "checks": [asdict(check) for check in checks]}

    return {
        "certificate": verified.certificate.id if verified.certificate else None,
        "status": verified.certificate.verdict.status if verified.certificate else None,
        "overridden": asdict(verified.overridden) if verified.overridden else None,
        "genuine": group(verified.genuine),
        "is_in_archive": verified.is_in_archive,
        "complete": group(verified.complete),
        "witnessed": [asdict(each) for each in verified.witnessed],
        "objections": [asdict(each) for each in verified.objections],
        "missing": [str(each) for each in verified.missing],
        "countersigned": [asdict(each) for each in verified.countersigned],
        "verdict": group(verified.verdict),
        "citations": group(verified.citations),
        "current": {
            "outcome": verified.currency,
            "root": str(verified.root),
            "commit": verified.commit,
            "unchanged_at": verified.unchanged_at,
            "repository": asdict(verified.place) if verified.place else None,
            "later": [asdict(each) for each in verified.later],
            "files": [asdict(file) for file in verified.files],
        },
        "exit_code": int(verified.exit_code),
    }
