"""Signed notices in published files that the log does not contain."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive.publishing import NOTICE_SUFFIX
from esper_agents.archive.verification.signature import NO_INDEX, read_sealed, signature_check
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.notices import read_notice
from esper_agents.certificates.signing.dsse import Envelope, encodings_within, is_signed_by
from esper_agents.certificates.signing.key_history import LogNotice
from esper_agents.certificates.signing.public_keys import key_id_of
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.signing.trusted_keys import TrustOrigin
from esper_agents.certificates.strict_json import MOST_BYTES
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import IntegrityError, NewerRecordError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.storage.store import Store

MOST_FILES = 5000
PUBLISHED_NOTICE = "published notice"
# A file that is added within one tick of the clock of the file system leaves the time of its folder as it was.
_TICK_NS = 20_000_000
_NAMES = {
    NoticeKind.CERTIFICATE_REVOKED: "revocation",
    NoticeKind.OVERRIDDEN: "override",
    NoticeKind.COUNTERSIGNED: "countersignature",
}


@dataclass(frozen=True, slots=True)
class SealedFile:
    """Published file with a signed envelope.

    Attributes:
        path: Path of the file.
        envelope: Parsed envelope; its signature is not verified.
    """

    path: Path
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class UnloggedNotice:
    """Notice about a certificate that a known key signed but the log does not contain.

    Attributes:
        path: Published file.
        notice: The notice.
        envelope: Signed envelope of the notice.
        is_by_good_key: Whether its key is trusted and valid now; otherwise the key has been retired.
        is_from_colleague: Whether the key is that of a colleague who keeps another log: this log lost nothing.
    """

    path: Path
    notice: LogNoticeStatement
    envelope: Envelope
    is_by_good_key: bool
    is_from_colleague: bool = False

    def __str__(self) -> str:
        """Return the notice in one line."""
        reason = f": {self.notice.reason}" if self.notice.reason else ""
        return f"the {_NAMES[self.notice.kind]} {self.notice.id} of {self.notice.at[:10]}{reason}"


class NoticeFolders:
    """Notice files of folders, for callers that ask for many views; a folder is listed again after a change."""

    def __init__(self) -> None:
        """List nothing yet."""
        self._listed: dict[Path, tuple[int, dict[str, list[str]]]] = {}

    def names(self, view: Path) -> list[str]:
        """Return the names of the notice files of a view."""
        folder = view.parent
        try:
            # Read before the names: a file that is added meanwhile changes it.
            changed_at = folder.stat().st_mtime_ns
            if folder not in self._listed or self._listed[folder][0] != changed_at:
                found = _by_stem(folder)
                if time.time_ns() - changed_at < _TICK_NS:
                    return found.get(view.stem, [])
                self._listed[folder] = changed_at, found
        except OSError:
            return []
        return self._listed[folder][1].get(view.stem, [])


def notice_files(view: Path, folders: NoticeFolders | None = None) -> list[Path]:
    """Return the notice files of a view, sorted by name; at most 5,000.

    Args:
        view: Markdown view, which need not exist.
        folders: Folders that were listed before; None to list the folder of the view.
    """
    return [view.parent / name for name in sorted((folders or NoticeFolders()).names(view))[:MOST_FILES]]


def _by_stem(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(NOTICE_SUFFIX):
                found.setdefault(entry.name.removesuffix(NOTICE_SUFFIX).rpartition(".")[0], []).append(entry.name)
    return found


def sealed_files(paths: Iterable[Path], mentioning: str) -> tuple[SealedFile, ...]:
    """Return the envelopes in files whose payload mentions a text.

    A pipe, folder, device or dangling link in place of a file is skipped.
    """
    wanted = mentioning.encode()
    fragments = encodings_within(wanted)
    return tuple(
        SealedFile(path, sealed)
        for path in paths
        if isinstance(sealed := _read(path, fragments), Envelope) and wanted in sealed.payload
    )


def signed(files: Iterable[SealedFile], keyring: Keyring) -> Iterator[Envelope]:
    """Yield the envelopes with a valid signature of a trusted, currently valid key."""
    for file in files:
        if signature_check(file.envelope, keyring, None).outcome is CheckOutcome.HOLDS:
            yield file.envelope


def notice_of(sealed: Envelope) -> Iterator[LogNotice]:
    """Yield the notice in a published envelope, with an unknown log index.

    Raises:
        NewerRecordError: The notice has a newer version, and may end a certificate.
    """
    with passing_over_other_records():
        yield LogNotice(NO_INDEX, read_notice(sealed.payload), sealed)


@contextmanager
def passing_over_other_records() -> Iterator[None]:
    """Skip signed records of other types, except those of a newer version, which may end a certificate."""
    try:
        yield
    except NewerRecordError:
        raise
    except IntegrityError:
        return


def unlogged(
    files: Iterable[SealedFile],
    certificate_id: str,
    logged: Collection[LogNoticeStatement],
    keyring: Keyring,
    colleagues: Collection[str] = (),
) -> Iterator[UnloggedNotice]:
    """Yield the notices about a certificate that the log does not contain, oldest first.

    Notices of unknown or revoked keys are ignored. Read the files before the log: a notice is published after it was
    logged.

    Args:
        files: Published files that may contain notices.
        certificate_id: ID of the certificate.
        logged: Notices about it that the log contains.
        keyring: Accepted keys.
        colleagues: Fingerprints of trusted keys that never signed an entry of the log; see `colleagues_among`.
    """
    found: dict[LogNoticeStatement, UnloggedNotice] = {}
    for file in files:
        span = keyring.history.spans.get(file.envelope.key_id)
        is_known = span is not None and span.ended_by is not NoticeKind.KEY_REVOKED
        is_about_it = certificate_id.encode() in file.envelope.payload
        if span is None or not (is_known and is_about_it and is_signed_by(file.envelope, span.public_key)):
            continue
        for each in _readable(file.envelope):
            is_of_it = each.notice.certificate == certificate_id and each.notice.kind in _NAMES
            if is_of_it and each.notice not in logged:
                is_colleague = file.envelope.key_id in colleagues
                one = UnloggedNotice(file.path, each.notice, file.envelope, span.last is None, is_colleague)
                found.setdefault(each.notice, one)
    yield from sorted(found.values(), key=lambda one: (one.notice.at, one.notice.id))


def colleagues_among(store: Store, project_key: str, files: Iterable[SealedFile], keyring: Keyring) -> frozenset[str]:
    """Return the keys of some files that a user trusts as those of others and that never signed in the project's log.

    A notice of such a key was entered in another log. One of a key that signs here, as in a shared database, was lost.
    """
    others = {TrustOrigin.HOME, TrustOrigin.PROJECT, TrustOrigin.GIVEN}
    trusted = {key_id_of(key.signer.raw) for key in keyring.trusted.keys if key.source in others and key.signer.raw}
    named = {file.envelope.key_id for file in files} & trusted
    if not named:
        return frozenset()
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, project_key)
        return frozenset(key_id for key_id in named if not transparency_log.has_entry_by(connection, log_id, key_id))


def is_objection(found: UnloggedNotice, signer: str, keyring: Keyring) -> bool:
    """Return whether a notice is a colleague's revocation of a certificate that another key signed.

    Args:
        found: Notice that the log does not contain.
        signer: Fingerprint of the key that signed the certificate.
        keyring: Accepted keys.
    """
    is_revocation = found.notice.kind is NoticeKind.CERTIFICATE_REVOKED and found.is_from_colleague
    return is_revocation and not keyring.has_same_owner(found.envelope.key_id, signer)


def _readable(sealed: Envelope) -> Iterator[LogNotice]:
    # Notices of a newer version are ignored, as in the log.
    with suppress(NewerRecordError):
        yield from notice_of(sealed)


def unlogged_check(found: UnloggedNotice) -> Check:
    """Return the check result of an unlogged notice: the log lost it, or its key is no longer valid."""
    if found.is_from_colleague and found.is_by_good_key:
        detail = f"{found.path.name}: {found} is in the log of a colleague"
        if found.notice.kind is not NoticeKind.CERTIFICATE_REVOKED:
            detail = f"{detail}; `esper certificates repair` enters it here, too"
        return Check(PUBLISHED_NOTICE, CheckOutcome.HOLDS, detail)
    if not found.is_by_good_key:
        detail = f"{found.path.name}: {found} is not in the log, and its key has been retired since"
        return Check(PUBLISHED_NOTICE, CheckOutcome.CANNOT_DECIDE, detail)
    detail = (
        f"{found.path.name}: {found} is signed by a trusted key and is not in the log: the data directory is older than"
        " the published files; restore the newer one, or run `esper certificates repair` to enter it again"
    )
    return Check(PUBLISHED_NOTICE, CheckOutcome.FAILS, detail)


def _read(path: Path, fragments: Collection[bytes]) -> Envelope | Check | None:
    """Return the envelope in a file; None if it cannot be read, or contains none of some texts."""
    try:
        found = read_plain(path, MOST_BYTES)
    except (OSError, ValueError):
        return None
    # Decoding takes several times as long as the search, and few of many envelopes mention a certificate.
    if found is None or not any(fragment in found.data for fragment in fragments):
        return None
    return read_sealed(found.data)
