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
    """A notice as it stands in a log.

    Attributes:
        index: Its place in the log, from 0.
        notice: What it says; the envelope's payload, parsed.
        envelope: The envelope that it came in.
    """

    index: int
    notice: LogNoticeStatement
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class KeySpan:
    """From where to where a key is good in one log.

    Attributes:
        key_id: Its fingerprint.
        public_key: The key.
        first: The first entry that it may have signed.
        last: The last entry that it may have signed; None where nothing ended it.
        added_by: Fingerprint of the key that brought it in; empty where it is trusted directly.
        ended_by: What ended it, retired or revoked; None where nothing did.
        reason: Why it ended, in the words of whoever ended it.
    """

    key_id: str
    public_key: bytes
    first: int = 0
    last: int | None = None
    added_by: str = ""
    ended_by: NoticeKind | None = None
    reason: str = ""

    def is_good(self, index: int) -> bool:
        """Return whether it may have signed an entry."""
        return self.first <= index and (self.last is None or index <= self.last)


@dataclass(frozen=True, slots=True)
class IgnoredNotice:
    """A notice on keys that changes nothing.

    Attributes:
        index: Its place in the log.
        why: Why it counts for nothing.
    """

    index: int
    why: str


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """Every key that was ever good in a log.

    Attributes:
        spans: From where to where each is good, by fingerprint.
        ignored: Notices on keys that change nothing, in order.
    """

    spans: Mapping[str, KeySpan]
    ignored: tuple[IgnoredNotice, ...] = ()

    def is_good(self, key_id: str, index: int) -> bool:
        """Return whether a key may have signed an entry of the log."""
        span = self.spans.get(key_id)
        return span is not None and span.is_good(index)

    def good_key(self, key_id: str, index: int) -> bytes | None:
        """Return the public key to check an entry with; None where that key is not good for it."""
        return self.spans[key_id].public_key if self.is_good(key_id, index) else None

    def checkpoint_keys(self, size: int) -> tuple[bytes, ...]:
        """Return the keys that may vouch for a checkpoint of so many entries, where the log itself is not at hand.

        A revoked key is none of them, however early the checkpoint says that it is: whoever stole the key can sign a
        log of one entry. What it signed before is shown by a checkpoint of another key over the same log.
        """
        good = (each for each in self.spans.values() if each.is_good(size - 1))
        return tuple(each.public_key for each in good if each.ended_by is not NoticeKind.KEY_REVOKED)

    def said(self, key_id: str, index: int) -> str:
        """Return in words whether a key is good for an entry, and what is to be known beside that."""
        span = self.spans.get(key_id)
        if span is None:
            return f"the key {key_id} is not trusted here, and no trusted key brought it into the log"
        if index < span.first:
            return f"the key {key_id} came into the log after entry {index}, at entry {span.first - 1}"
        if span.last is None or span.ended_by is None:
            return f"the key {key_id} is good"
        because = f": {span.reason}" if span.reason else ""
        how = "revoked" if span.ended_by is NoticeKind.KEY_REVOKED else "retired"
        if index > span.last:
            return f"the key {key_id} was {how} at entry {span.last}{because}"
        if span.ended_by is NoticeKind.KEY_REVOKED:
            return (
                f"the key {key_id} was revoked later, at entry {span.last}{because}; genuine by the log's order alone"
            )
        return f"the key {key_id} was good, and retired at entry {span.last}"

    def added_by(self, key_id: str) -> tuple[KeySpan, ...]:
        """Return the keys that a key brought in, and those that these brought in, and so on.

        Where a key was stolen, each of them must be looked at: its revocation leaves them good.
        """
        found: dict[str, KeySpan] = {}
        wanted = [key_id]
        while wanted:
            by = wanted.pop()
            brought = [each for each in self.spans.values() if each.added_by == by and each.key_id not in found]
            found |= {each.key_id: each for each in brought}
            wanted += [each.key_id for each in brought]
        return tuple(found.values())


def key_history(notices: Iterable[LogNotice], roots: Iterable[bytes]) -> KeyHistory:
    """Return which key is good for which entry.

    A key is good that is trusted directly, or that a key brought in which was good at that entry; from the entry after
    that on. A retired key, and a revoked one, is good up to the entry that says so and never again. Any good key may
    say so: who has lost a key cannot sign with it. What was signed before a revocation stays genuine, by the log's
    order and not by any clock.

    Args:
        notices: The log's notices in its order; others than those on keys are passed over. Their signatures are checked
            here.
        roots: The keys that are trusted directly.
    """
    spans = {key_id_of(each): KeySpan(key_id_of(each), each) for each in roots}
    ignored = tuple(IgnoredNotice(each.index, why) for each in notices if (why := _apply(spans, each)))
    return KeyHistory(spans, ignored)


def _apply(spans: dict[str, KeySpan], entry: LogNotice) -> str:
    """Let a notice count; return why it does not."""
    match entry.notice.kind:
        case NoticeKind.KEY_ADDED:
            return _not_by_good_key(spans, entry) or _add(spans, entry)
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
        return f"the key {entry.envelope.key_id} that signed it is not good there"
    if not is_signed_by(entry.envelope, signer.public_key):
        return f"it does not carry the signature of {entry.envelope.key_id}"
    return ""


def _add(spans: dict[str, KeySpan], entry: LogNotice) -> str:
    try:
        added = read_public_key(entry.notice.key)
    except IntegrityError as error:
        return error.problem
    key_id = key_id_of(added)
    known = spans.get(key_id)
    if known is None:
        spans[key_id] = KeySpan(key_id, added, entry.index + 1, added_by=entry.envelope.key_id)
        return ""
    if known.last is not None:
        return f"the key {key_id} has ended at entry {known.last}, and does not come back"
    return ""


def _end(spans: dict[str, KeySpan], entry: LogNotice) -> str:
    try:
        key_id = key_id_of(read_public_key(entry.notice.key))
    except IntegrityError as error:
        return error.problem
    known = spans.get(key_id)
    if known is None:
        return f"it ends the key {key_id}, which was never good here"
    is_revoked = entry.notice.kind is NoticeKind.KEY_REVOKED
    if known.last is not None and not (is_revoked and known.ended_by is NoticeKind.KEY_RETIRED):
        return f"the key {key_id} has ended already, at entry {known.last}"
    # A retired key that is revoked later was no longer good in between.
    last = entry.index if known.last is None else known.last
    spans[key_id] = replace(known, last=last, ended_by=entry.notice.kind, reason=entry.notice.reason)
    return ""
