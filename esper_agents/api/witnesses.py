"""Witnesses of transparency logs: publish, cosign and demand checkpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EsperError, IntegrityError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.paths import PUBLISHED, PUBLISHED_LOGS, home

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.archive.witnessing import LogPublication
    from esper_agents.certificates.log.cosignature import Witness
    from esper_agents.certificates.log.witness_memory import CosignedLog
    from esper_agents.certificates.log.witness_request import WitnessRequest
    from esper_agents.domain.project import Project

_HERE = Path()


@dataclass(frozen=True, slots=True)
class CosignedFile:
    """Checkpoint that this witness cosigned, with the file that it was written to.

    Attributes:
        cosigned: The checkpoint.
        path: The file.
    """

    cosigned: CosignedLog
    path: Path


@dataclass(frozen=True, slots=True)
class WitnessRun:
    """Result of cosigning the published checkpoints of a project.

    Attributes:
        done: Checkpoints that were cosigned.
        refused: Errors of the others, each with the folder of its log.
    """

    done: tuple[CosignedFile, ...]
    refused: tuple[tuple[str, EsperError], ...]


async def publish_log(where: str | Path = _HERE, since: Sequence[int] = ()) -> LogPublication:
    """Publish the newest checkpoint of a project's log for witnesses, and adopt published cosignatures.

    Args:
        where: A path in the project.
        since: Further numbers of entries from which a witness needs a consistency proof.

    Raises:
        UsageError: The project has no log.
        IntegrityError: The log contradicts a published checkpoint that it signed.
    """
    from esper_agents.api.project import open_project
    from esper_agents.archive import witnessing

    async with open_project(where) as project:
        place = project.services.place
        return await place.store.run(witnessing.publish_log, place, tuple(since))


def cosign_published(where: str | Path = _HERE) -> WitnessRun:
    """Cosign the published checkpoint of each log of a project but the user's own; see `cosign_request`.

    Args:
        where: A path in the project.

    Raises:
        UsageError: The project publishes no request, or the signing key is not usable.
    """
    from esper_agents.archive.witnessing import published_requests

    project = _project(where)
    folder = Path(project.root, PUBLISHED, PUBLISHED_LOGS)
    requests: dict[Path, list[Path]] = {}
    for path in published_requests(folder):
        requests.setdefault(path.parent, []).append(path)
    if not requests:
        problem = f"no log of {project.name} asks for a cosignature"
        raise UsageError(problem, remedy="pull the commit for which its owner ran `esper log publish`")
    done, refused = [], []
    for found in requests.values():
        try:
            wanted = _wanted(found)
            if wanted is not None:
                done.append(_cosigned(wanted, project, wanted.parent))
        except EsperError as error:
            refused.append((found[0].parent.relative_to(project.root).as_posix(), error))
    return WitnessRun(tuple(done), tuple(refused))


def cosign_request(file: str | Path, folder: str | Path | None = None, where: str | Path = _HERE) -> CosignedFile:
    """Cosign a checkpoint, if its log extends the one that was cosigned here before.

    Args:
        file: Request in the form of C2SP `add-checkpoint`.
        folder: Folder of the cosigned checkpoint; that of the request if omitted.
        where: A path in the project whose trusted keys apply.

    Raises:
        InputFileError: The file cannot be read.
        EvidenceError: No trusted key signed the checkpoint.
        UsageError: The proof starts from another checkpoint, or the log is the user's own.
        IntegrityError: The log does not extend the checkpoint that was cosigned here before.
    """
    path = Path(file).expanduser()
    return _cosigned(path, _project(where), Path(folder).expanduser() if folder else path.parent)


def demanded_witnesses(
    given: Iterable[str] = (), where: str | Path = _HERE, *, project: Project | None = None
) -> tuple[Witness, ...]:
    """Return the witnesses that a verification demands: the given ones, and those of the settings.

    Args:
        given: Keys of witnesses: a verifier key, an Ed25519 key as text or file, or the fingerprint of a key that is
            trusted or published in the project.
        where: A path in the project.
        project: The project, for callers that know it; finding it starts git.

    Raises:
        UsageError: A key is malformed or unknown.
        DefinitionError: The settings are invalid.
    """
    from esper_agents.orchestration.settings import PERSONS_FILE, PROJECT_FILE, load_witnesses

    project = project or _project(where)
    root, named = Path(project.root), list(given)
    found = [_witness(each, project, may_be_file=True) for each in named]
    if (home() / PERSONS_FILE).exists() or (root / PROJECT_FILE).exists():
        found += [_witness(each, project, may_be_file=False) for each in load_witnesses(home(), root)]
    return tuple(dict.fromkeys(found))


def _witness(text: str, project: Project, *, may_be_file: bool) -> Witness:
    from esper_agents.certificates.log.cosignature import read_verifier_key, witness_of
    from esper_agents.certificates.signing.key_input import claimed_signer
    from esper_agents.certificates.signing.public_keys import from_ssh, is_key_id

    try:
        if found := read_verifier_key(_text_of(text) if may_be_file else text):
            return found
        if is_key_id(text):
            return witness_of(_key_with(text, project))
        if not may_be_file and not text.startswith("ssh-ed25519 "):
            raise UsageError(f"{text[:100]!r} is not the key of a witness", remedy="use SHA256:... or a verifier key")
        signer = claimed_signer(text, "witness")
        return witness_of(from_ssh(signer.kind, signer.blob))
    except IntegrityError as error:
        raise UsageError(error.problem, remedy="use the output of `esper keys export --format witness`") from error


def _text_of(text: str) -> str:
    file = Path(text).expanduser()
    try:
        return file.read_text(encoding="utf-8")[:1000] if "+" not in text and file.is_file() else text
    except (OSError, UnicodeError):
        return text


def _key_with(key_id: str, project: Project) -> bytes:
    from esper_agents.api.keys import find_published_key
    from esper_agents.certificates.signing.public_keys import read_public_key
    from esper_agents.certificates.signing.trusted_keys import trusted

    known = trusted(home(), Path(project.root), project.key).public_key(key_id)
    return known or read_public_key(find_published_key(key_id, project.root).key.public_key)


def _wanted(paths: Sequence[Path]) -> Path | None:
    """Return the request of a log that this witness can check; None for the user's own log.

    The request that starts from the checkpoint that was cosigned here; else any, whose refusal says what is wrong.
    """
    from esper_agents.certificates.log.note import is_signed_by
    from esper_agents.certificates.log.witness_memory import remembered
    from esper_agents.certificates.signing.signing_key import signing_key

    read = {path: _request(path) for path in paths}
    for path, request in read.items():
        if is_signed_by(request.signed, request.checkpoint.origin, signing_key(home()).public_key):
            return None
        old = remembered(home(), request.checkpoint.origin)
        if request.old == (old.size if old else 0):
            return path
    return paths[0]


def _request(path: Path) -> WitnessRequest:
    from esper_agents.certificates.log.witness_request import MOST_BYTES, read_request
    from esper_agents.certificates.signing.regular_file import read_plain
    from esper_agents.errors import InputFileError

    try:
        found = read_plain(path, MOST_BYTES, follow=False)
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "cannot be read").lower()
        raise InputFileError(str(path), why, remedy="name a request that `esper log publish` wrote") from error
    if found is None:
        raise InputFileError(str(path), "not a regular file", remedy="name a request that `esper log publish` wrote")
    return read_request(found.data)


def _cosigned(path: Path, project: Project, folder: Path) -> CosignedFile:
    from esper_agents.archive.inspection import keyring
    from esper_agents.archive.publishing import write_published
    from esper_agents.archive.witnessing import CHECKPOINT_SUFFIX
    from esper_agents.certificates.log import witness_memory
    from esper_agents.certificates.signing.signing_key import signing_key

    request = _request(path)
    keys = keyring(project).history.checkpoint_keys(max(request.checkpoint.size, 1))
    cosigned = witness_memory.cosign(home(), request, signing_key(home()), keys, time.time)
    target = folder / f"{cosigned.witness.name.rpartition('/')[2]}{CHECKPOINT_SUFFIX}"
    write_published(target, cosigned.note.encode())
    return CosignedFile(cosigned, target)


def _project(where: str | Path) -> Project:
    return find_project([Path(where).expanduser()], Path.cwd())
