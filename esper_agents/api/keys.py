"""Signing key of the user and trusted keys: list, export, trust, rotate, revoke.

Keys belong to the data directory of the user. A project may bring a file of keys, which the user accepts or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.changes import key_changes
from esper_agents.archive.changes.key_changes import ChangeReason
from esper_agents.archive.log_discovery import origin_of
from esper_agents.certificates.log.cosignature import witness_of
from esper_agents.certificates.signing import trusted_keys
from esper_agents.certificates.signing.allowed_signers import is_principal, own_signer, read_signers
from esper_agents.certificates.signing.key_input import claimed_signer, claimed_signers, fingerprint, this_user
from esper_agents.certificates.signing.public_keys import (
    SSH_TYPE,
    as_note_key,
    as_pem,
    as_ssh,
    is_key_id,
    key_id_of,
)
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.signing.signing_key import existing_key, given_key_file, key_file, signing_key
from esper_agents.domain.key_format import KeyFormat
from esper_agents.errors import UsageError
from esper_agents.git.find_project import find_project
from esper_agents.paths import PUBLISHED, PUBLISHED_KEYS, home

if TYPE_CHECKING:
    from esper_agents.certificates.signing.allowed_signers import RefusedLine, Signer
    from esper_agents.certificates.signing.trusted_keys import TrustOrigin
    from esper_agents.domain.project import Project

_HERE = Path()
_MOST_PUBLISHED_KEYS, _MOST_KEY_BYTES = 1000, 1000


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Public key with the name of its owner.

    Attributes:
        name: Owner, as the user or the file names it.
        key_id: Fingerprint, as `ssh-keygen -l` shows it.
        kind: OpenSSH key type, such as `ssh-ed25519`.
        public_key: Key in the OpenSSH format, without the name.
        namespaces: Namespaces that the key may sign in; all if empty.
        source: Reason why the key is trusted; None if it is not.
    """

    name: str
    key_id: str
    kind: str
    public_key: str
    namespaces: tuple[str, ...] = ()
    source: TrustOrigin | None = None


@dataclass(frozen=True, slots=True)
class KeyListing:
    """Signing key and trusted keys of the user.

    Attributes:
        own: Public half of the signing key; None if there is no key yet.
        private_file: File of the private half.
        is_from_environment: Whether `ESPER_SIGNING_KEY_FILE` named that file.
        trusted: Trusted keys, the own key included.
        has_untrusted_file: Whether the project has a `.esper/trusted_keys` that the user has not accepted as it is.
        untrusted: Keys of that file.
        refused: Lines of key files that are not valid keys.
    """

    own: PublicKey | None
    private_file: Path
    is_from_environment: bool
    trusted: tuple[PublicKey, ...]
    has_untrusted_file: bool
    untrusted: tuple[PublicKey, ...]
    refused: tuple[RefusedLine, ...]


@dataclass(frozen=True, slots=True)
class KeyTrust:
    """Result of trusting a key.

    Attributes:
        key: The key.
        is_new: Whether it was not trusted before.
        file: File of trusted keys that contains it.
    """

    key: PublicKey
    is_new: bool
    file: Path


@dataclass(frozen=True, slots=True)
class TrustedKeyList:
    """Result of trusting the keys of a list.

    Attributes:
        keys: Result for each key.
        refused: Lines that are not valid keys.
    """

    keys: tuple[KeyTrust, ...]
    refused: tuple[RefusedLine, ...]


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """Public key that the files of a project bring; not trusted.

    Attributes:
        key: The key; its name is not that of its owner.
        source: File of the project that contains it.
    """

    key: PublicKey
    source: str


@dataclass(frozen=True, slots=True)
class AcceptedKeys:
    """Keys of a project that the user accepted.

    Attributes:
        project: Name of the project.
        keys: Keys of its `.esper/trusted_keys`.
        refused: Lines of that file that are not valid keys.
    """

    project: str
    keys: tuple[PublicKey, ...]
    refused: tuple[RefusedLine, ...]


@dataclass(frozen=True, slots=True)
class EnrolledKeys:
    """Keys enrolled in the logs.

    Attributes:
        keys: Enrolled keys.
        logs: Databases in which a notice was recorded; empty if all logs contain the keys already.
        refused: Lines that are not valid keys.
    """

    keys: tuple[PublicKey, ...]
    logs: tuple[str, ...]
    refused: tuple[RefusedLine, ...]


@dataclass(frozen=True, slots=True)
class RotatedKeys:
    """Signing keys before and after a rotation.

    Attributes:
        old: Retired key.
        new: New signing key.
        logs: Transparency logs in which the change was recorded.
    """

    old: PublicKey
    new: PublicKey
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RevokedKey:
    """Result of the revocation of a key.

    Attributes:
        key: Revoked key.
        logs: Transparency logs in which the revocation was recorded.
        introduced: Keys that the key introduced into these logs, by fingerprint; they stay valid unless revoked, too.
    """

    key: PublicKey
    logs: tuple[str, ...]
    introduced: tuple[str, ...]


def list_keys(where: str | Path = _HERE) -> KeyListing:
    """Return the signing key and the trusted keys; create no key.

    Args:
        where: A path in the project whose `.esper/trusted_keys` counts.

    Raises:
        InputFileError: The path does not exist.
        UsageError: The signing key is not usable, for example readable by other users.
    """
    project = _project(where)
    own, given = existing_key(home()), given_key_file()
    found = trusted_keys.trusted(home(), Path(project.root), project.key)
    return KeyListing(
        _own(own.public_key) if own else None,
        given or key_file(home()),
        given is not None,
        tuple(_public(key.signer, key.source) for key in found.keys),
        bool(found.brought_sha256),
        tuple(map(_public, found.brought)),
        found.refused,
    )


def export_key(form: KeyFormat = KeyFormat.SSH, name: str = "", where: str | Path = _HERE) -> str:
    """Return the public signing key as text; the key is created if there is none.

    Args:
        form: Format of the key.
        name: Owner; for `KeyFormat.NOTE` the name of the log. The current user, or the log of the project, if omitted.
        where: A path in the project whose log is named.

    Raises:
        UsageError: The name is not valid, or the project has no log yet.
    """
    public_key = signing_key(home()).public_key
    match form:
        case KeyFormat.PEM:
            return as_pem(public_key).removesuffix("\n")
        case KeyFormat.SSH:
            return f"{as_ssh(public_key)} {_owner(name)}"
        case KeyFormat.NOTE:
            return as_note_key(public_key, name or _origin(where))
        case KeyFormat.WITNESS:
            return witness_of(public_key).verifier_key
        case KeyFormat.ALLOWED_SIGNERS:
            return own_signer(_owner(name), public_key).line()


def trust_key(key: str, name: str = "") -> KeyTrust:
    """Trust a public key: its signatures are authentic from now on.

    Args:
        key: OpenSSH key, signed-note key, or the path of a file with one.
        name: Owner; the comment of the key if omitted.

    Raises:
        UsageError: The text is not a public key, or has no owner.
    """
    signer = claimed_signer(key, name)
    is_new = trusted_keys.trust(home(), signer)
    return KeyTrust(_public(signer), is_new, trusted_keys.home_file(home()))


def trust_keys(key: str, name: str = "") -> TrustedKeyList:
    """Trust a public key, or each key of a saved list of a code host.

    Args:
        key: As for `trust_key`, or the path of a file with one key per line.
        name: Owner; the comment of each key if omitted.

    Raises:
        UsageError: No key can be read, a key has no owner, or is trusted under another name.
    """
    read = claimed_signers(key, name)
    added = [(signer, trusted_keys.trust(home(), signer)) for signer in read.signers]
    file = trusted_keys.home_file(home())
    keys = tuple(KeyTrust(_public(signer), is_new, file) for signer, is_new in added)
    return TrustedKeyList(keys, read.refused)


def enroll_keys(key: str, name: str = "", reason: str = "") -> EnrolledKeys:
    """Enroll the keys of workers in all logs of the data directory; see `key_changes.enroll`.

    Everyone who trusts the signing key accepts the signatures of an enrolled key.

    Args:
        key: As for `trust_keys`.
        name: Name of the worker; the comment of each key if omitted.
        reason: Reason, stored in the log.

    Raises:
        UsageError: No key can be read or signs certificates, a key has no owner or has ended, or there is no log.
        StorageError: A database or the data directory cannot be used.
        IntegrityError: A log is inconsistent.
    """
    read = claimed_signers(key, name)
    signers = [signer for signer in read.signers if signer.kind == SSH_TYPE]
    if not signers:
        problem = f"a key of kind {read.signers[0].kind} signs no certificates"
        raise UsageError(problem, remedy="run `esper keys export` on the machine of the worker")
    chosen = {signer.raw: signer for signer in signers}
    done = key_changes.enroll(
        home(), {raw: signer.principal for raw, signer in chosen.items()}, ChangeReason(this_user(), reason)
    )
    logs = tuple(dict.fromkeys(log for each in done for log in each.logs))
    return EnrolledKeys(tuple(map(_public, chosen.values())), logs, read.refused)


def find_published_key(key_id: str, where: str | Path = _HERE) -> PublishedKey:
    """Return a public key that the project brings, by its fingerprint; the key is not trusted.

    A fingerprint is the digest of the key, so that only the key with this fingerprint is found.

    Args:
        key_id: Fingerprint, `SHA256:...`.
        where: A path in the project.

    Raises:
        UsageError: The project brings no key with this fingerprint.
    """
    project = _project(where)
    root = Path(project.root)
    places = [*sorted((root / PUBLISHED / PUBLISHED_KEYS).glob("*.pub"))[:_MOST_PUBLISHED_KEYS]]
    for place in places:
        for signer in _signers_at(place):
            if fingerprint(signer) == key_id:
                return PublishedKey(_public(signer), place.relative_to(root).as_posix())
    brought = read_signers(trusted_keys.project_keys(root) or b"", ".esper/trusted_keys")
    for signer in brought.signers:
        if fingerprint(signer) == key_id:
            return PublishedKey(_public(signer), ".esper/trusted_keys")
    remedy = "ask its owner for the output of `esper keys export`, then: esper keys trust FILE"
    raise UsageError(f"the project publishes no key with fingerprint {key_id}", remedy=remedy)


def _signers_at(place: Path) -> tuple[Signer, ...]:
    try:
        found = read_plain(place, _MOST_KEY_BYTES, follow=False)
        text = found.data.decode("ascii") if found else ""
        return (claimed_signer(text, "published"),) if text.startswith("ssh-ed25519 ") else ()
    except (OSError, UnicodeError, UsageError):
        return ()


def accept_project_keys(where: str | Path = _HERE) -> AcceptedKeys:
    """Trust the current content of a project's `.esper/trusted_keys`; a changed file must be accepted again.

    Raises:
        UsageError: The project has no such file, or it is not a regular file.
    """
    project = _project(where)
    data = trusted_keys.project_keys(Path(project.root))
    if data is None:
        raise UsageError(
            f"{str(trusted_keys.project_file(Path(project.root)))!r} is no plain file of keys",
            remedy="write it: one line of `esper keys export` for each person",
        )
    # Read the file once, so that the returned keys are the accepted keys.
    read = read_signers(data, ".esper/trusted_keys")
    trusted_keys.accept(home(), project.key, data)
    return AcceptedKeys(project.name, tuple(map(_public, read.signers)), read.refused)


def rotate_key(reason: str = "") -> RotatedKeys:
    """Replace the signing key, and record that in all logs of the data directory; see `key_changes.rotate`.

    Raises:
        UsageError: There is no key, or `ESPER_SIGNING_KEY_FILE` provides it.
        StorageError: A database or the data directory cannot be written.
        IntegrityError: A log is inconsistent.
    """
    done = key_changes.rotate(home(), ChangeReason(this_user(), reason))
    return RotatedKeys(_own(done.old), _own(done.new), done.logs)


def revoke_key(key: str, reason: str, where: str | Path = _HERE) -> RevokedKey:
    """Revoke a key in all logs that know it, and in the log of a project; see `key_changes.revoke`.

    Args:
        key: Fingerprint, or public key.
        reason: Reason, stored in the log.
        where: A path in the project.

    Raises:
        UsageError: The key is unknown, is the signing key, or is valid in no log.
        StorageError: A database or the data directory cannot be used.
        IntegrityError: A log is inconsistent.
    """
    raw = key_changes.known_key(home(), key) if is_key_id(key) else claimed_signer(key, "anybody").raw
    if not raw:
        raise UsageError(f"unknown Ed25519 key {key[:200]!r}", remedy="run `esper keys show`")
    done = key_changes.revoke(home(), raw, ChangeReason(this_user(), reason), project_key=_project(where).key)
    return RevokedKey(_own(done.key), done.logs, done.brought)


def _public(signer: Signer, source: TrustOrigin | None = None) -> PublicKey:
    text = f"{signer.kind} {signer.blob}"
    return PublicKey(signer.principal, fingerprint(signer), signer.kind, text, tuple(signer.namespaces), source)


def _own(public_key: bytes) -> PublicKey:
    text = as_ssh(public_key)
    return PublicKey(this_user(), key_id_of(public_key), text.partition(" ")[0], text)


def _project(where: str | Path) -> Project:
    return find_project([Path(where).expanduser()], Path.cwd())


def _owner(name: str) -> str:
    if name and not is_principal(name):
        raise UsageError(f"invalid name {name!r}", remedy="use letters, digits and ._+@=:/~- only")
    return name or this_user()


def _origin(where: str | Path) -> str:
    found = origin_of(home(), _project(where))
    if not found:
        raise UsageError("no certificate was issued here yet, so the log has no name", remedy="say one with --name")
    return found
