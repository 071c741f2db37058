"""Notices as in-toto Statements, signed and entered in the log like certificates."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.canonical_json import canonical_bytes
from esper_agents.certificates.json_conversion import from_json, to_json
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, Envelope
from esper_agents.certificates.signing.key_history import LogNotice
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import STATEMENT_TYPE, VOCABULARY, is_time, predicate_of
from esper_agents.certificates.strict_json import loads, refuse
from esper_agents.domain.identifier import Prefix, is_id
from esper_agents.domain.notice import EntryKind, LogNoticeStatement, NoticeKind
from esper_agents.domain.status import Status
from esper_agents.errors import IntegrityError
from esper_agents.paths import home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.certificates.log.transparency_log import AppendResult, LogEntry
    from esper_agents.storage.store import Transaction

NOTICE = "notice/v1"
# A reader that does not know overrides must report `cannot decide` instead of ignoring them.
OVERRIDE = "notice/v2"
# A reader that does not know enrolled keys must treat their signatures as those of unknown keys.
ENROLLMENT = "notice/v3"
_MEMBERS = frozenset({"_type", "subject", "predicateType", "predicate"})


def notice_statement(notice: LogNoticeStatement) -> bytes:
    """Return the canonical bytes of a notice. Its one subject is the certificate, key or checkpoint concerned.

    Raises:
        IntegrityError: An identifier or a time is malformed.
    """
    _check_forms(notice)
    value = {
        "_type": STATEMENT_TYPE,
        "subject": _subjects(notice),
        "predicateType": VOCABULARY + _predicate_type(notice.kind),
        "predicate": _predicate(notice),
    }
    return canonical_bytes(value)


def read_notice(data: bytes) -> LogNoticeStatement:
    """Parse a notice strictly.

    Raises:
        NewerRecordError: The notice was written by a newer version.
        IntegrityError: The bytes are not strict JSON, not such a statement, or the subject does not match the content.
    """
    value = loads(data)
    said = predicate_of(value, ENROLLMENT)
    if not isinstance(value, dict) or set(value) != _MEMBERS:
        refuse(f"a statement has the members {', '.join(sorted(_MEMBERS))}")
    notice = from_json(LogNoticeStatement, value["predicate"])
    wanted = _predicate_type(notice.kind)
    if value["_type"] != STATEMENT_TYPE or said != wanted:
        refuse(f"not a {STATEMENT_TYPE} with a {VOCABULARY}{wanted}")
    _check_forms(notice)
    if value["subject"] != _subjects(notice):
        refuse("its subject does not match its content")
    return notice


def enter_notice(transaction: Transaction, project_key: str, notice: LogNoticeStatement) -> AppendResult:
    """Sign a notice with the current user's key and append it to the log.

    Raises:
        IntegrityError: The log is inconsistent with its pin or checkpoint.
        UsageError: The signing key is not usable.
    """
    record = Record(notice.id, EntryKind.NOTICE, notice.certificate, notice_statement(notice))
    return transparency_log.append(transaction, signing_key(home()), project_key, record)


def log_notices(entries: Iterable[LogEntry]) -> Iterator[LogNotice]:
    """Yield the notices among log entries; unreadable notices are skipped. Signatures are not verified."""
    for entry in entries:
        if entry.kind is not EntryKind.NOTICE:
            continue
        try:
            notice = read_notice(entry.statement)
        except IntegrityError:
            continue
        yield LogNotice(entry.idx, notice, Envelope(PAYLOAD_TYPE, entry.statement, entry.key_id, entry.signature))


def _predicate_type(kind: NoticeKind) -> str:
    return {NoticeKind.OVERRIDDEN: OVERRIDE, NoticeKind.KEY_ENROLLED: ENROLLMENT}.get(kind, NOTICE)


def _predicate(notice: LogNoticeStatement) -> dict[str, Any]:
    said: dict[str, Any] = to_json(notice)
    # Readers of the first version must still accept revocations, so these get no new members.
    return said if notice.status else {name: each for name, each in said.items() if name != "status"}


def _subjects(notice: LogNoticeStatement) -> list[dict[str, Any]]:
    if notice.certificate:
        return [{"name": notice.certificate, "digest": {"sha256": notice.certificate_sha256}}]
    name, text = ("key", notice.key) if notice.key else ("checkpoint", notice.before)
    return [{"name": name, "digest": {"sha256": sha256(to_json(text).encode()).hexdigest()}}]


def _check_forms(notice: LogNoticeStatement) -> None:
    if not is_id(notice.id) or not notice.id.startswith(f"{Prefix.NOTICE}_"):
        refuse(f"{notice.id[:60]!a} is not a notice ID")
    if not is_time(notice.at):
        refuse(f"{notice.at[:60]!a} is not a time such as 2026-01-31T09:30:00.000Z")
    if notice.certificate and not is_id(notice.certificate):
        refuse(f"{notice.certificate[:60]!a} is not a certificate ID")
    if not _is_whole(notice):
        refuse(f"a {notice.kind} notice does not name its subject")


def _is_whole(notice: LogNoticeStatement) -> bool:
    if notice.kind is not NoticeKind.OVERRIDDEN and notice.status:
        return False
    match notice.kind:
        case NoticeKind.KEY_ADDED | NoticeKind.KEY_ENROLLED | NoticeKind.KEY_RETIRED | NoticeKind.KEY_REVOKED:
            return bool(notice.key) and not notice.certificate
        case NoticeKind.CERTIFICATE_REVOKED:
            return bool(notice.certificate) and not notice.key
        case NoticeKind.COUNTERSIGNED:
            return bool(notice.certificate and notice.signature)
        case NoticeKind.OVERRIDDEN:
            is_about_one = notice.certificate and notice.certificate_sha256 and not notice.key
            return bool(is_about_one and notice.reason.strip()) and notice.status in tuple(Status)
        case NoticeKind.ROLLBACK_ACCEPTED:
            return not notice.certificate and not notice.key
