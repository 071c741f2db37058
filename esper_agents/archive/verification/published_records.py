"""Read published certificate files, and the notices and countersignatures next to them."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.changes.countersignatures import check_each
from esper_agents.archive.published.scan import MOST_ENVELOPES
from esper_agents.archive.published_notices import (
    MOST_FILES,
    NoticeFolders,
    notice_files,
    notice_of,
    passing_over_other_records,
    sealed_files,
    signed,
)
from esper_agents.archive.publishing import RECORD_SUFFIX
from esper_agents.archive.verification.signature import signature_check
from esper_agents.archive.verification.supersession import (
    by_notices,
    by_statement,
    objection_check,
    override_of,
)
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.statement import parse
from esper_agents.certificates.strict_json import MOST_BYTES
from esper_agents.errors import InputFileError, IntegrityError
from esper_agents.paths import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from esper_agents.archive.published_notices import SealedFile
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.archive.verification.supersession import Override, SupersedingEntry
    from esper_agents.certificates.check import Check
    from esper_agents.certificates.signing.dsse import Envelope
    from esper_agents.certificates.signing.key_history import LogNotice
    from esper_agents.domain.project import Project

NOTICE_SIGNATURE = "notice signature"
_PAYLOAD = re.compile(rb'"payload":"([A-Za-z0-9+/]*)')
_OWN_ID = re.compile(rb'"id":"(crt_[0-9a-f]{32})"')
_ANY_ID = re.compile(rb"crt_[0-9a-f]{32}")
_TIME = re.compile(r"_([0-9]{8}_[0-9]{6})[_.]")
_NAMED_DIGITS = 12
_END = re.compile(r"(?:crt_)?([0-9a-f]{6,32})")


class PublishedFolder:
    """Published files of a project, each folder listed and each envelope searched once for many certificates."""

    def __init__(self, envelopes_naming: Callable[[str], Awaitable[Iterable[Path]]] | None = None) -> None:
        """List nothing yet.

        Args:
            envelopes_naming: Returns the envelopes that may name a certificate, from an index; None to read them all.
        """
        self.notices = NoticeFolders()
        self._from_index = envelopes_naming
        self._named: dict[Path, dict[str, list[Path]]] = {}

    async def naming(self, statement: bytes | None, view: Path) -> list[Path]:
        """Return the envelopes in the folder of a view that name its certificate; none if its statement is not one."""
        certificate_id = _certificate_of(statement)
        if certificate_id is None:
            return []
        folder = view.parent
        if self._from_index is not None:
            return [path for path in await self._from_index(certificate_id) if path.parent == folder][:MOST_FILES]
        if folder not in self._named:
            self._named[folder] = _names_in(_envelopes_in(folder))
        return self._named[folder].get(certificate_id, [])


def _envelopes_in(folder: Path) -> list[Path]:
    """Return the envelopes in a folder, at most the first 100,000 by name."""
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries if entry.name.endswith(RECORD_SUFFIX))
            return [folder / name for name in nsmallest(MOST_ENVELOPES, names)]
    except OSError:
        return []


def _names_in(records: Iterable[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in sealed_files(records, "crt_"):
        for name in {match.decode() for match in _ANY_ID.findall(file.envelope.payload)}:
            found.setdefault(name, []).append(file.path)
    return found


@dataclass(frozen=True, slots=True)
class PublishedEndings:
    """Published entries that end a certificate, or ask for it.

    Attributes:
        later: Revocations by its signer, and certificates of its signer that supersede it.
        objections: Checks for revocations by other trusted keys, which do not end it.
    """

    later: tuple[SupersedingEntry, ...] = ()
    objections: tuple[Check, ...] = ()


def published_endings(
    sealed: Envelope | None,
    view: Path,
    keyring: Keyring,
    known: tuple[SupersedingEntry, ...],
    *,
    records: Sequence[Path] | None = None,
    folders: NoticeFolders | None = None,
) -> PublishedEndings:
    """Return the published notices that revoke a certificate and the signer's published certificates that supersede it.

    Args:
        sealed: Envelope of the certificate; None if it is not available.
        view: View of the certificate.
        keyring: Trusted keys.
        known: Known entries that revoke or supersede it.
        records: Published envelopes that may name it; None for all in the folder of the view.
        folders: Folders that were listed before; see `published_notices.notice_files`.
    """
    named = _certificate_of(sealed.payload) if sealed else None
    if named is None or sealed is None:
        return PublishedEndings()
    told = {each.by for each in known}
    found: list[SupersedingEntry] = []
    objections: list[Check] = []
    for notice in _notices(sealed.payload, view, keyring, folders):
        revocations = tuple(by_notices([notice], named, keyring.history))
        if keyring.has_same_owner(notice.envelope.key_id, sealed.key_id):
            found += revocations
        elif revocations and notice.notice.id not in told:
            who = keyring.who(keyring.history.spans[notice.envelope.key_id].public_key)
            objections.append(objection_check(notice, who))
    others = _envelopes_in(view.parent) if records is None else records
    for other in signed(sealed_files(others, named), keyring):
        with passing_over_other_records():
            # A rejection must not end because of a certificate that another signer published.
            if keyring.has_same_owner(other.key_id, sealed.key_id):
                found += by_statement(other.payload, named)
    return PublishedEndings(tuple(each for each in dict.fromkeys(found) if each.by not in told), tuple(objections))


def published_countersignatures(
    data: bytes | None, view: Path, keyring: Keyring, folders: NoticeFolders | None = None
) -> tuple[Check, ...]:
    """Return the checks of the countersignatures next to a view.

    Args:
        data: Statement of the certificate; None if it is not available.
        view: View of the certificate.
        keyring: Trusted keys.
        folders: Folders that were listed before; see `published_notices.notice_files`.
    """
    notices = _notices(data, view, keyring, folders)
    return check_each(notices, data, keyring) if data is not None and notices else ()


def published_override(
    data: bytes | None, view: Path, keyring: Keyring, folders: NoticeFolders | None = None
) -> Override | None:
    """Return the override of the status by a notice next to a view.

    Args:
        data: Statement of the certificate; None if it is not available.
        view: View of the certificate.
        keyring: Trusted keys.
        folders: Folders that were listed before; see `published_notices.notice_files`.
    """
    notices = _notices(data, view, keyring, folders)
    return override_of(notices, data, keyring.history) if data is not None and notices else None


def _notices(data: bytes | None, view: Path, keyring: Keyring, folders: NoticeFolders | None = None) -> list[LogNotice]:
    """Return the distinct signed notices next to a view about its certificate; none if it cannot be read."""
    named = _certificate_of(data)
    sealed = signed(sealed_files(notice_files(view, folders), named), keyring) if named is not None else ()
    return list({each.notice.id: each for envelope in sealed for each in notice_of(envelope)}.values())


def notice_checks(files: Iterable[SealedFile], keyring: Keyring) -> Iterator[Check]:
    """Yield a failed check for each notice next to a view whose signature does not match its key."""
    for file in files:
        found = signature_check(file.envelope, keyring, None)
        if found.outcome is CheckOutcome.FAILS:
            yield replace(found, name=NOTICE_SIGNATURE, detail=f"{file.path.name}: {found.detail}")


def _certificate_of(data: bytes | None) -> str | None:
    try:
        return parse(data).id if data is not None else None
    except IntegrityError:
        return None


def published_record(project: Project, wanted: str) -> Path | None:
    """Return the only published envelope of the project whose ID has the given suffix."""
    end = _END.fullmatch(wanted)
    if end is None:
        return None
    files = _records(project)
    # Names end with digits of the ID. Names of version 0.1.0 do not, so that their files must be read.
    named = [path for path in files if path.name.removesuffix(RECORD_SUFFIX).endswith(end.group(1)[-_NAMED_DIGITS:])]
    for some in (named, files):
        matches = [path for path in some if _identifier(path, mentioning=end.group(1)).endswith(end.group(1))]
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None


def latest_record(project: Project, keyring: Keyring) -> Path | None:
    """Return the published envelope with the newest time in its name: a trusted one if there is any."""
    untrusted: Path | None = None
    for path in sorted(_records(project), key=_time_in_name, reverse=True):
        sealed = next(iter(sealed_files((path,), "crt_")), None)
        if sealed is not None and signature_check(sealed.envelope, keyring, None).outcome is CheckOutcome.HOLDS:
            return path
        untrusted = untrusted or (path if sealed is not None else None)
    return untrusted


def _records(project: Project) -> list[Path]:
    known = sorted((Path(project.root) / PUBLISHED).glob(f"*/certificates/*{RECORD_SUFFIX}"))
    return [path for path in known if path.is_file()]


def _time_in_name(path: Path) -> str:
    return next(iter(_TIME.findall(path.name)[-1:]), "")


def _identifier(record: Path, *, mentioning: str) -> str:
    """Return the certificate ID of an envelope, damaged or not; empty if the file does not contain the text."""
    payload = _payload_in(bytes_of(record))
    if mentioning.encode() not in payload:
        return ""
    try:
        return parse(payload).id
    except IntegrityError:
        named = _OWN_ID.findall(payload)
        return named[-1].decode() if named else ""


def _payload_in(data: bytes) -> bytes:
    """Return the payload of an envelope, as far as it can be decoded."""
    found = _PAYLOAD.search(data)
    if found is None:
        return b""
    text = found.group(1)
    return base64.b64decode(text + b"=" * (-len(text) % 4))


def bytes_of(path: Path) -> bytes:
    """Return the bytes of a file, at most one more than the size limit of an envelope.

    Raises:
        InputFileError: The file does not exist, is not a regular file, or cannot be read.
    """
    try:
        found = read_plain(path, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise InputFileError(str(path), "no such file", remedy="correct the path, or name an identifier") from error
    except OSError as error:
        problem = (error.strerror or "cannot be read").lower()
        raise InputFileError(str(path), problem, remedy="make the file readable") from error
    if found is None:
        remedy = "name a published view or record, or write it again: esper certificates repair"
        raise InputFileError(str(path), "not a regular file", remedy=remedy)
    return found.data
