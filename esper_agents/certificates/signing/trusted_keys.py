"""Trusted keys: the own key, keys trusted by the user, and accepted project keys."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.certificates.signing.allowed_signers import (
    MOST_BYTES,
    NAMESPACE,
    RefusedLine,
    Signer,
    Signers,
    own_signer,
    read_signers,
)
from esper_agents.certificates.signing.public_keys import SSH_TYPE, key_id_of
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.signing.signing_key import existing_key, locked_folder, write_whole
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

OWN = "this-home"
_PROJECT_KEY = re.compile(r"[A-Za-z0-9._-]{1,60}-[0-9a-f]{12}")
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class TrustOrigin(StrEnum):
    """Reason why a key is trusted."""

    OWN = "own"
    EARLIER = "own, earlier"
    HOME = "trusted here"
    PROJECT = "the project's, accepted"
    GIVEN = "given for this time"


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """Trusted key.

    Attributes:
        signer: Owner of the key and its permitted namespaces.
        source: Reason why it is trusted.
    """

    signer: Signer
    source: TrustOrigin


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """Keys whose signatures are accepted.

    Attributes:
        keys: Trusted keys without duplicates; the first source of a key applies.
        brought: Keys of the current `.esper/trusted_keys` of the project that the user has not accepted. Not trusted.
        brought_sha256: SHA-256 digest of that file; empty if there is none or it is accepted.
        refused: Refused lines and files.
    """

    keys: tuple[TrustedKey, ...]
    brought: tuple[Signer, ...] = ()
    brought_sha256: str = ""
    refused: tuple[RefusedLine, ...] = ()

    def who(self, public_key: bytes, namespace: str = NAMESPACE) -> str | None:
        """Return the owner of an Ed25519 key that is trusted to sign in a namespace; else None."""
        for key in self.keys:
            if key.signer.kind == SSH_TYPE and key.signer.raw == public_key and key.signer.may_sign(namespace):
                return key.signer.principal
        return None

    def public_key(self, key_id: str) -> bytes | None:
        """Return the trusted Ed25519 key with a fingerprint, if it may sign certificates."""
        for raw in self.roots():
            if key_id_of(raw) == key_id:
                return raw
        return None

    def roots(self) -> tuple[bytes, ...]:
        """Return every Ed25519 key that may sign certificates."""
        signers = (key.signer for key in self.keys)
        return tuple(signer.raw for signer in signers if signer.kind == SSH_TYPE and signer.may_sign(NAMESPACE))

    def allowed_signers(self) -> str:
        """Return the keys that may countersign, as a file for `ssh-keygen -Y verify`.

        The own keys are excluded: they give no second opinion.
        """
        others = (key.signer for key in self.keys if key.source in {TrustOrigin.HOME, TrustOrigin.PROJECT})
        return "".join(f"{each.line()}\n" for each in others)


def trusted(home: Path, project_root: Path | None, project_key: str = "") -> TrustedKeys:
    """Return the trusted keys; writes nothing and creates no key.

    Args:
        home: `paths.home()`.
        project_root: Project whose `.esper/trusted_keys` is read; None for none.
        project_key: `domain.project.Project.key`, under which the user accepted that file.

    Raises:
        UsageError: The own key is not usable.
    """
    own = existing_key(home)
    found = [TrustedKey(own_signer(OWN, own.public_key), TrustOrigin.OWN)] if own else []
    refused: list[RefusedLine] = []
    for place, source in ((earlier_file(home), TrustOrigin.EARLIER), (home_file(home), TrustOrigin.HOME)):
        read = _read_own(place)
        found += [TrustedKey(signer, source) for signer in read.signers]
        refused += read.refused
    data = project_keys(project_root) if project_root else None
    if data is None:
        return TrustedKeys(_once(found), (), "", tuple(refused))
    read = read_signers(data, _SHOWN)
    refused += read.refused
    digest = sha256(data).hexdigest()
    if digest != accepted(home, project_key):
        return TrustedKeys(_once(found), read.signers, digest, tuple(refused))
    found += [TrustedKey(signer, TrustOrigin.PROJECT) for signer in read.signers]
    return TrustedKeys(_once(found), (), "", tuple(refused))


def home_file(home: Path) -> Path:
    """Return the file of trusted keys in the data directory."""
    return home / "trusted_keys"


def earlier_file(home: Path) -> Path:
    """Return the file with the public halves of the user's earlier keys in the data directory."""
    return home / "keys" / "earlier_keys"


def project_file(project_root: Path) -> Path:
    """Return the file in which a project lists its team's keys."""
    return project_root / ".esper" / "trusted_keys"


def project_keys(project_root: Path) -> bytes | None:
    """Return the bytes of a project's key file; None if it is missing or not a regular file under 256 KiB."""
    return _bytes_of(project_file(project_root), own=False)


def accept(home: Path, project_key: str, data: bytes) -> None:
    """Trust the keys of a project's file as long as its bytes are unchanged.

    Raises:
        StorageError: The data directory cannot be written.
        UsageError: Other users can access its keys.
    """
    place = _accepted_file(home, project_key)
    with locked_folder(home):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, f"{sha256(data).hexdigest()}\n".encode())


def accepted(home: Path, project_key: str) -> str | None:
    """Return the digest of the key file that the user accepted for a project; None if there is none."""
    data = _bytes_of(_accepted_file(home, project_key), own=True)
    return data.decode("ascii", "replace").strip() if data else None


def trust(home: Path, signer: Signer) -> bool:
    """Trust a key; return whether it was not trusted before.

    Raises:
        UsageError: It is trusted under another name, or the file of trusted keys is not readable.
        StorageError: The data directory cannot be written.
    """
    with locked_folder(home):
        return _add(home_file(home), signer)


def keep_earlier(home: Path, public_key: bytes) -> None:
    """Store the public half of a former own key; only within `keys.locked_folder`."""
    _add(earlier_file(home), own_signer(OWN, public_key))


_SHOWN = ".esper/trusted_keys"


def _add(place: Path, signer: Signer) -> bool:
    read = _read_own(place)
    same = [each for each in read.signers if (each.kind, each.blob) == (signer.kind, signer.blob)]
    if same and (same[0].principal != signer.principal or not same[0].may_sign(NAMESPACE)):
        raise UsageError(
            f"that key is already in {str(place)!r}, as {same[0].line().rpartition(' ')[0]!r}",
            remedy="remove that line first, if it is wrong",
        )
    if same:
        return False
    before = _bytes_of(place, own=True)
    if before is None and os.path.lexists(place):
        raise UsageError(f"cannot add to {str(place)!r}: {read.refused[0].why}", remedy="fix that file first")
    separator = b"\n" if before and not before.endswith(b"\n") else b""
    write_whole(place, (before or b"") + separator + f"{signer.line()}\n".encode())
    return True


def _accepted_file(home: Path, project_key: str) -> Path:
    if not _PROJECT_KEY.fullmatch(project_key):
        raise UsageError(f"{project_key!r} is not a project key", remedy="open the project by its folder")
    return home / "projects" / project_key / "accepted_trusted_keys"


def _read_own(place: Path) -> Signers:
    """Parse a file of the data directory; a file that other users can write is ignored."""
    if not os.path.lexists(place):
        return Signers()
    data = _bytes_of(place, own=True)
    if data is None:
        why = f"not your own regular file under {MOST_BYTES} bytes that only you can write: chmod 600"
        return Signers((), (RefusedLine(str(place), why),))
    return read_signers(data, str(place))


def _bytes_of(place: Path, *, own: bool) -> bytes | None:
    """Return the bytes of a small regular file; None if it is missing, not regular, or not exclusively the user's."""
    try:
        # Links are not followed: a project may contain any file.
        found = read_plain(place, MOST_BYTES, follow=False)
    except OSError:
        return None
    if found is None or len(found.data) > MOST_BYTES:
        return None
    is_own = found.status.st_uid in {0, os.geteuid()} and not found.status.st_mode & _WRITABLE
    return found.data if is_own or not own else None


def _once(keys: list[TrustedKey]) -> tuple[TrustedKey, ...]:
    found: dict[tuple[str, str], TrustedKey] = {}
    for key in keys:
        found.setdefault((key.signer.kind, key.signer.blob), key)
    return tuple(found.values())
