"""`esper certificates verify|revoke|repair|reproduce`: commands that check and change the log."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.reproduce import reproduce
from esper_agents.cli.shared_options import HERE, CertificateArgument, JsonOption, ProjectOption, ReasonOption
from esper_agents.cli.terminal import echo_json
from esper_agents.cli.verify import verify
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.api import RepairResult
    from esper_agents.domain.notice import LogNoticeStatement


def register(app: typer.Typer) -> None:  # noqa: ARG001 - the commands belong to `esper certificates`
    """Add the commands."""
    for command in (verify, revoke, repair, reproduce):
        certificates_app.command()(command)


def revoke(
    certificate: CertificateArgument,
    reason: ReasonOption,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Revoke a certificate.

    Adds a signed notice to the transparency log. Verification of the certificate reports it as revoked from then on.
    The published certificate of a colleague can only be revoked by its signer; object to it with `override`.

    Examples:
      esper certificates revoke 12faba12a09f --reason "the data set was mislabelled"
    """
    notice = asyncio.run(_revoke(project, certificate, reason))
    if as_json:
        echo_json(asdict(notice))
        return
    outline(f"revoked: {notice.certificate}, by {notice.id}")
    outline_command("seen by", f"esper certificates verify {notice.certificate}")


def repair(
    accept_rollback: Annotated[
        bool, typer.Option("--accept-rollback", help="Continue with a log that lost entries; this is logged")
    ] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Rebuild indexes, views and proofs.

    Rebuilds them, and missing envelopes, from the log; a second run changes nothing. Then verifies the result and lists
    the remaining problems. Exits with 7 if a certificate or the log is not authentic, and with 1 if another step
    failed, such as writing a file.

    Examples:
      esper certificates repair
    """
    done = asyncio.run(_repair(project, accept_rollback=accept_rollback))
    if as_json:
        echo_json(asdict(done) | {"written": [str(each) for each in done.written]})
    else:
        _report(done)
    if done.left:
        raise typer.Exit(ExitCode.FAILED if done.is_authentic else ExitCode.TAMPERED)


def _report(done: RepairResult) -> None:
    if done.is_nothing:
        outline("nothing to repair")
        return
    for each in done.accepted:
        outline(f"accepted, and on record in the log: {each}")
    outline(f"entered in the log: {done.entered}; nodes of it made again: {done.nodes}")
    for each in done.restored:
        outline(f"entered in the log again: {each}")
    if done.is_signed:
        outline("a new checkpoint of the log was signed")
    _list(f"corrected in the archive, as their records say: {len(done.corrected)}", done.corrected)
    if done.reindexed:
        count = number_of(len(done.reindexed), "certificate")
        _list(f"index rows written again: {'at least ' if done.may_have_reindexed_more else ''}{count}", done.reindexed)
    if done.separated:
        count = number_of(len(done.separated), "certificate")
        outline(f"published under a name of its own, because version 0.1.0 gave two one name: {count}")
    for view in done.separated:
        outline(f"{view.certificate}: {view.old} -> {view.new}", 1)
        outline(f"{view.kept_by} keeps {view.old}", 2)
    if done.notes:
        _list(f"memory notes written again as their certificates left them: {len(done.notes)}", done.notes)
    _list(f"files written: {len(done.written)}", map(str, done.written))
    for each in done.left:
        outline(f"still wrong: {each}")


def _list(heading: str, names: Iterable[str]) -> None:
    outline(heading)
    for name in names:
        outline(name, 1)


async def _revoke(where: Path, certificate: str, reason: str) -> LogNoticeStatement:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.revoke(certificate, reason)


async def _repair(where: Path, *, accept_rollback: bool) -> RepairResult:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.repair(accept_rollback=accept_rollback)
