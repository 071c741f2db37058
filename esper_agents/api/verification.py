"""Verification of certificates, archives and coverage without an open project; writes nothing.

    from pathlib import Path

    from esper_agents.api import check_coverage

    result = await check_coverage(Path("~/my-model").expanduser())
    for file in result.coverage:
        print(file.path, file.standing, file.why)

None of these functions creates a database. `project.certificates` offers the same for an open project.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.witnesses import demanded_witnesses
from esper_agents.archive.project_place import has_archive
from esper_agents.archive.verification.certificate_files import file_in, find_certificate_files, project_of
from esper_agents.archive.verification.verify import verify, with_judged_commit
from esper_agents.archive.verification.witnessed import witness_demand
from esper_agents.certificates.signing.key_input import signers_in
from esper_agents.domain.gate_level import GateLevel
from esper_agents.errors import EsperError, NotFoundError
from esper_agents.git.commit_files import CommitFiles
from esper_agents.git.find_project import find_project

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.verification.gate import GateResult
    from esper_agents.archive.verification.verify import VerificationResult
    from esper_agents.archive.verification.verify_all import ArchiveVerification
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.project import Project
    from esper_agents.domain.status import Status


async def verify_certificate(
    target: str = "latest",
    project: Path | None = None,
    *,
    trusted_keys: Sequence[Signer] = (),
    revision: str = "",
    witnesses: Sequence[str] = (),
) -> VerificationResult:
    """Verify signature, log entry, verdict and files of one certificate.

    Args:
        target: Certificate ID, unique suffix, `latest`, or path of a published view or envelope.
        project: Path in the project to compare with; None for the project of the file, or the current one.
        trusted_keys: Additional trusted keys for this call; see `read_trusted_keys`.
        revision: Commit, branch or tag whose files to compare with; the work tree if empty.
        witnesses: Keys of witnesses that must have cosigned, besides those of the settings; see `demanded_witnesses`.

    Raises:
        NotFoundError: The certificate is neither in the archive nor in the published files.
        InputFileError: The file cannot be read.
        UsageError: The revision does not exist.
        EvidenceError: The envelope of the view is not next to it, or git cannot read the revision.
    """
    compared = project_of(target, project)
    async with _archive_of(compared, is_optional=file_in(target) is not None) as place:
        demand = witness_demand(demanded_witnesses(witnesses, compared.root), compared, place)
        files = await find_certificate_files(target, compared, place, trusted_keys, demand)
        commit = CommitFiles(files.root, revision) if revision else None
        return with_judged_commit(verify(files, commit), files)


async def verify_archive(project: Path, witnesses: Sequence[str] = ()) -> ArchiveVerification:
    """Verify all certificates of a project, its log, and the events and notes that the certificates sign.

    Args:
        project: Path in the project.
        witnesses: Keys of witnesses that must have cosigned, besides those of the settings; see `demanded_witnesses`.

    Raises:
        NotFoundError: The project has no archive.
    """
    from esper_agents.archive.verification.verify_all import verify_all

    found = find_project([project], Path.cwd())
    async with _archive_of(found) as place:
        if place is None:
            raise NotFoundError("archive", found.name, (), listing="esper certificates list")
        return await verify_all(place, demanded_witnesses(witnesses, found.root))


async def check_coverage(  # noqa: PLR0913 - the options of the command
    project: Path,
    paths: Sequence[Path] = (),
    *,
    required: frozenset[Status] | None = None,
    agents: Sequence[str] | None = None,
    trusted_keys: Sequence[Signer] = (),
    accepts_overrides: bool = False,
    since: str = "",
    fail_on: GateLevel = GateLevel.UNCOVERED,
    witnesses: Sequence[str] = (),
) -> GateResult:
    """Return whether valid certificates cover the files under some paths.

    Args:
        project: Path in the project.
        paths: Files and directories; the whole project if empty.
        required: Accepted statuses; if omitted, APPROVED and GO.
        agents: Agents that must all have covered each file; if omitted, `pytorch-code-reviewer`; empty for any agent.
        trusted_keys: Additional trusted keys for this call; see `read_trusted_keys`.
        accepts_overrides: Whether an override may improve a status; one that worsens it always counts.
        since: Only files that differ from this revision; its content needs no certificate. With `A..B` or `A...B`, the
            files are those of B, read from git.
        fail_on: Result at which the gate fails.
        witnesses: Keys of witnesses that must have cosigned, besides those of the settings; see `demanded_witnesses`.

    Raises:
        InputFileError: A path does not exist or contains no files to cover.
    """
    from esper_agents.archive.verification.gate import gate

    found = find_project([project], Path.cwd())
    async with _archive_of(found) as place:
        result = await gate(
            found,
            place,
            paths,
            required=required,
            agents=agents,
            signers=trusted_keys,
            accepts_overrides=accepts_overrides,
            since=since,
            witnesses=demanded_witnesses(witnesses, found.root),
        )
    return replace(result, fail_on=fail_on)


def read_trusted_keys(text: str) -> tuple[Signer, ...]:
    """Parse one public key, or all keys of an allowed_signers file, for the `trusted_keys` of a verification.

    Args:
        text: OpenSSH public key, signed-note key or line of an allowed_signers file; or a file that contains one.

    Raises:
        UsageError: A key is malformed, weak or private.
    """
    return signers_in(text)


@asynccontextmanager
async def _archive_of(project: Project, *, is_optional: bool = False) -> AsyncIterator[ProjectPlace | None]:
    """Yield the archive of a project; None if it has no database, or one that cannot be used and is optional."""
    from contextlib import AsyncExitStack

    from esper_agents.api.project import open_project

    async with AsyncExitStack() as stack:
        place = None
        if has_archive(project):
            try:
                place = (await stack.enter_async_context(open_project(project.root))).services.place
            except EsperError:
                if not is_optional:
                    raise
        yield place
