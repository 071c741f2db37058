"""Validity of keys per log entry, derived from signed key notices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.certificates.signing.dsse import is_signed_by
from esper_agents.certificates.signing.public_keys import key_id_of, read_public_key
from esper_agents.domain.notice import NoticeKind
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from esper_agents.certificates.signing.dsse import Envelope
    from esper_agents.domain.notice import LogNoticeStatement


@dataclass(frozen=True, slots=True)
class LogNotice:
    """Notice in a log.

    Attributes:
        index: Index of its entry, from 0.
        notice: Parsed payload of the envelope.
        envelope: Envelope that contains it.
    """

    index: int
    notice: LogNoticeStatement
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class KeySpan:
    """Validity of a key in one log.

    Attributes:
        key_id: Fingerprint of the key.
        public_key: Public key.
        first: First entry that it may have signed.
        last: Last entry that it may have signed; None if it has not ended.
        added_by: Fingerprint of the key that introduced it; empty if it is trusted directly.
        ended_by: Kind of the notice that ended it, retired or revoked; None if it has not ended.
        reason: Reason given in that notice.
    """

    key_id: str
    public_key: bytes
    first: int = 0
    last: int | None = None
    added_by: str = ""
    ended_by: NoticeKind | None = None
    reason: str = ""

    def is_good(self, index: int) -> bool:
        """Return whether the key may have signed an entry."""
        return self.first <= index and (self.last is None or index <= self.last)


@dataclass(frozen=True, slots=True)
class IgnoredNotice:
    """Key notice without effect.

    Attributes:
        index: Index of its entry.
        why: Reason why it is ignored.
    """

    index: int
    why: str


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """History of every key that was ever valid in a log.

    Attributes:
        spans: Validity by fingerprint.
        ignored: Key notices without effect, in order.
    """

    spans: Mapping[str, KeySpan]
    ignored: tuple[IgnoredNotice, ...] = ()

    def is_good(self, key_id: str, index: int) -> bool:
        """Return whether a key may have signed an entry of the log."""
        span = self.spans.get(key_id)
        return span is not None and span.is_good(index)

    def good_key(self, key_id: str, index: int) -> bytes | None:
        """Return the public key for verifying an entry; None if that key is not valid for it."""
        return self.spans[key_id].public_key if self.is_good(key_id, index) else None

    def checkpoint_keys(self, size: int) -> tuple[bytes, ...]:
        """Return the keys accepted for a checkpoint of a given size if the log itself is not available.

        A revoked key is never accepted, however small the checkpoint: a stolen key can sign a log of one entry. A
        checkpoint of another key over the same log proves what the revoked key signed earlier.
        """
        good = (span for span in self.spans.values() if span.is_good(size - 1))
        return tuple(each.public_key for each in good if each.ended_by is not NoticeKind.KEY_REVOKED)

    def said(self, key_id: str, index: int) -> str:
        """Return a description of a key's validity for an entry, with any warning."""
        span = self.spans.get(key_id)
        if span is None:
            return f"key {key_id} is not trusted, and no trusted key added it to the log"
        if index < span.first:
            return f"key {key_id} was added to the log after entry {index}, at entry {span.first - 1}"
        if span.last is None or span.ended_by is None:
            return f"key {key_id} is valid"
        because = f": {span.reason}" if span.reason else ""
        how = "revoked" if span.ended_by is NoticeKind.KEY_REVOKED else "retired"
        if index > span.last:
            return f"key {key_id} was {how} at entry {span.last}{because}"
        if span.ended_by is NoticeKind.KEY_REVOKED:
            return f"key {key_id} was revoked later, at entry {span.last}{because}; authentic by log order only"
        return f"key {key_id} was valid, and retired later at entry {span.last}"

    def added_by(self, key_id: str) -> tuple[KeySpan, ...]:
        """Return the keys that a key introduced, directly or through other keys.

        If a key was stolen, each of them must be reviewed: its revocation leaves them valid.
        """
        found: dict[str, KeySpan] = {}
        wanted = [key_id]
        while wanted:
            by = wanted.pop()
            brought = [span for span in self.spans.values() if span.added_by == by and span.key_id not in found]
            found |= {each.key_id: each for each in brought}
            wanted += [each.key_id for each in brought]
        return tuple(found.values())


def key_history(notices: Iterable[LogNotice], roots: Iterable[bytes]) -> KeyHistory:
    """Return the validity of keys per log entry.

    A key is valid if it is trusted directly, or was introduced by a key valid at that entry; it is valid from the next
    entry on. An enrolled key is valid for all earlier entries as well: a worker may sign before a user enrolls its key.
    A retired or revoked key is valid up to the entry that says so and never again. Any valid key may end
    another key, because the owner of a lost key cannot sign with it. What was signed before a revocation stays
    authentic, by the order of the log and not by any clock.

    Args:
        notices: Notices of the log in order; only key notices are used. Their signatures are verified here.
        roots: Directly trusted keys.
    """
    spans = {key_id_of(root): KeySpan(key_id_of(root), root) for root in roots}
    ignored = tuple(IgnoredNotice(notice.index, why) for notice in notices if (why := _apply(spans, notice)))
    return KeyHistory(spans, ignored)


def _apply(spans: dict[str, KeySpan], entry: LogNotice) -> str:
    """Apply a notice; return the reason if it is ignored, else an empty string."""
    match entry.notice.kind:
        case NoticeKind.KEY_ADDED:
            return _not_by_good_key(spans, entry) or _add(spans, entry, entry.index + 1)
        case NoticeKind.KEY_ENROLLED:
            return _not_by_good_key(spans, entry) or _add(spans, entry, 0)
        case NoticeKind.KEY_RETIRED | NoticeKind.KEY_REVOKED:
            return _not_by_good_key(spans, entry) or _end(spans, entry)
        case (
            NoticeKind.CERTIFICATE_REVOKED
            | NoticeKind.COUNTERSIGNED
            | NoticeKind.OVERRIDDEN
            | NoticeKind.ROLLBACK_ACCEPTED
        ):
            return ""


def _not_by_good_key(spans: dict[str, KeySpan], entry: LogNotice) -> str:
    signer = spans.get(entry.envelope.key_id)
    if signer is None or not signer.is_good(entry.index):
        return f"signing key {entry.envelope.key_id} is not valid for this entry"
    if not is_signed_by(entry.envelope, signer.public_key):
        return f"signature does not match key {entry.envelope.key_id}"
    return ""


def _add(spans: dict[str, KeySpan], entry: LogNotice, first: int) -> str:
    try:
        added = read_public_key(entry.notice.key)
    except IntegrityError as error:
        return error.problem
    key_id = key_id_of(added)
    known = spans.get(key_id)
    if known is None:
        spans[key_id] = KeySpan(key_id, added, first, added_by=entry.envelope.key_id)
        return ""
    if known.last is not None:
        return f"key {key_id} ended at entry {known.last} and cannot become valid again"
    if first < known.first:
        spans[key_id] = replace(known, first=first)
    return ""


def _end(spans: dict[str, KeySpan], entry: LogNotice) -> str:
    try:
        key_id = key_id_of(read_public_key(entry.notice.key))
    except IntegrityError as error:
        return error.problem
    known = spans.get(key_id)
    if known is None:
        return f"ends key {key_id}, which was never valid in this log"
    is_revoked = entry.notice.kind is NoticeKind.KEY_REVOKED
    if known.last is not None and not (is_revoked and known.ended_by is NoticeKind.KEY_RETIRED):
        return f"key {key_id} already ended at entry {known.last}"
    # A retired key that is revoked later was already invalid in between.
    last = entry.index if known.last is None else known.last
    spans[key_id] = replace(known, last=last, ended_by=entry.notice.kind, reason=entry.notice.reason)
    return ""
