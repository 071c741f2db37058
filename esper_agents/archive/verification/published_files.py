"""Check that the published files of a certificate exist, are regular and match the archive."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.archive.published_notices import is_objection, notice_of, unlogged, unlogged_check
from esper_agents.archive.publishing import (
    NOTICE_SUFFIX,
    RECORD_SUFFIX,
    notice_contents,
    page_path,
    proof_path,
    record_path,
)
from esper_agents.archive.verification.published_records import notice_checks
from esper_agents.archive.verification.signature import NO_INDEX, proof_check, read_sealed
from esper_agents.archive.verification.supersession import EndingKind, SupersedingEntry, objection_check
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.signing.dsse import Envelope
from esper_agents.certificates.signing.key_history import LogNotice
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.strict_json import MOST_BYTES
from esper_agents.domain.notice import NoticeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from esper_agents.archive.inspection import CertificateInspection
    from esper_agents.archive.published_notices import SealedFile, UnloggedNotice
    from esper_agents.archive.verification.signature import Keyring

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Published files of one certificate.

    Attributes:
        views: Existing Markdown and HTML views with their bytes.
        checks: Checks that the other files are regular and match the archive.
        missing: Missing files that `repair` can rewrite.
        is_published: Whether any published file exists.
        revocations: Revocations by the signer or another key of the log, which the log does not contain.
        objections: Checks for revocations by colleagues, which do not revoke.
        from_colleagues: Notices in the logs of colleagues whose keys are trusted.
    """

    views: tuple[tuple[Path, bytes], ...]
    checks: tuple[Check, ...]
    missing: tuple[Path, ...]
    is_published: bool
    revocations: tuple[SupersedingEntry, ...]
    from_colleagues: tuple[LogNotice, ...] = ()
    objections: tuple[Check, ...] = ()


def published_files(
    places: Sequence[Path],
    notices: Collection[SealedFile],
    held: CertificateInspection,
    keyring: Keyring,
    shown: Callable[[Path], str],
    *,
    without_page: bool = False,
    colleagues: Collection[str] = (),
) -> PublishedFiles:
    """Return the published files of an archived certificate, compared with the archive.

    Args:
        places: Possible paths of the Markdown view, the current one first; empty if its name is refused.
        notices: Notice files next to them, read before the archive.
        held: Inspection of the certificate in the archive.
        keyring: Trusted keys.
        shown: Formats a path for output.
        without_page: Whether the HTML page was pruned.
        colleagues: Fingerprints of the keys of colleagues; see `published_notices.colleagues_among`.
    """
    logged = {notice.notice for notice in held.notices}
    views: list[tuple[Path, bytes]] = []
    checks: list[Check] = []
    present: set[str] = set()
    differing: set[Path] = set()
    for view in places:
        expected = _expected(view, held)
        for path in (*_views(view), *expected):
            found = content_of(path)
            if found is None:
                continue
            present.add(path.name)
            if isinstance(found, str):
                checks.append(irregular_file(shown(path), found))
            elif path in expected:
                made = tuple(_compared(path, found, expected[path], held, keyring))
                differing |= {path for each in made if each.outcome is CheckOutcome.FAILS}
                checks += [replace(each, detail=f"{shown(path)}: {each.detail}") for each in made]
            else:
                views.append((path, found))
    checks += notice_checks((notice for notice in notices if notice.path not in differing), keyring)
    lost = tuple(unlogged(notices, held.entry.id, logged, keyring, colleagues))
    checks += map(unlogged_check, lost)
    wanted = [path for place in places[:1] for path in (*_views(place), *_expected(place, held))]
    if without_page:
        wanted = [path for path in wanted if path not in map(page_path, places)]
    missing = tuple(path for path in wanted if path.name not in present)
    sealed = read_sealed(held.envelope or b"")
    signer = sealed.key_id if isinstance(sealed, Envelope) else ""
    objections = [each for each in lost if is_objection(each, signer, keyring)]
    others = [each for each in lost if each.is_from_colleague and each.is_by_good_key]
    return PublishedFiles(
        tuple(views),
        tuple(checks),
        missing,
        bool(present),
        tuple(_revocations(each for each in lost if each not in objections)),
        tuple(map(_unindexed, others)),
        tuple(_objections(objections, keyring)),
    )


def _objections(found: Iterable[UnloggedNotice], keyring: Keyring) -> Iterator[Check]:
    for each in found:
        if each.is_by_good_key:
            public_key = keyring.history.spans[each.envelope.key_id].public_key
            yield objection_check(_unindexed(each), keyring.who(public_key))


def _unindexed(found: UnloggedNotice) -> LogNotice:
    return LogNotice(NO_INDEX, found.notice, found.envelope)


def _revocations(lost: Iterable[UnloggedNotice]) -> Iterator[SupersedingEntry]:
    for each in lost:
        if each.is_by_good_key and each.notice.kind is NoticeKind.CERTIFICATE_REVOKED:
            yield SupersedingEntry(EndingKind.REVOKED, each.notice.id, each.notice.at, each.notice.reason)


def content_of(path: Path) -> bytes | str | None:
    """Return the bytes of a published file, its file type as text if it is not regular, or None if it is missing."""
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind != stat.S_IFREG:
            return f"{_KINDS.get(kind, 'something else')}, not a regular file"
        found = read_plain(path, MOST_BYTES, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"a file that cannot be read: {(error.strerror or 'no reason given').lower()}"
    return found.data if found is not None else "not a regular file"


def irregular_file(shown: str, what: str) -> Check:
    """Return the failed check for a published file that is not a regular file."""
    return Check("published file", CheckOutcome.FAILS, f"{shown}: it is {what}")


def _views(view: Path) -> tuple[Path, Path]:
    return view, page_path(view)


def _expected(view: Path, held: CertificateInspection) -> dict[Path, bytes]:
    """Return the files next to a view with their bytes; the proof may be for an older checkpoint."""
    if held.envelope is None:
        return {}
    records = {record_path(view): held.envelope, proof_path(view): held.proof or b""}
    return records | notice_contents(view, held.notices)


def _compared(
    path: Path,
    found: bytes,
    expected: bytes,
    held: CertificateInspection,
    keyring: Keyring,
) -> Iterator[Check]:
    if path.suffix == ".tlog-proof":
        yield replace(proof_check(held.envelope or b"", found, keyring), name="published proof")
        return
    is_record = path.name.endswith(RECORD_SUFFIX)
    name = "published record" if is_record else "published notice"
    if found == expected:
        if is_record:
            yield Check(name, CheckOutcome.HOLDS, "the bytes that the archive has")
        return
    # After the repair of a lost entry, an older file may contain a different notice with this number.
    sealed = read_sealed(found) if path.name.endswith(NOTICE_SUFFIX) else None
    logged = {notice.notice for notice in held.notices}
    is_logged = isinstance(sealed, Envelope) and any(each.notice in logged for each in notice_of(sealed))
    if not is_logged:
        yield Check(name, CheckOutcome.FAILS, "differs from the archived certificate")
