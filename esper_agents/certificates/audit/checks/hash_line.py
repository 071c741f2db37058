"""Check that the optional certificate hash is a digest of the document."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.cited_paths import commits_for, find_cited
from esper_agents.certificates.audit.document import DocumentKind
from esper_agents.certificates.audit.files import read_records
from esper_agents.certificates.audit.problem import AuditProblem, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {
    "hash-no-digest": "its hash is no digest of anything",
    "hash-not-of-text": "its hash has the form of a digest, and is not one of this text",
    "hash-of-other": "its hash is a digest of a file that it cites, not of this text",
    "hash-of-earlier": "its hash is a digest of the text as it was first committed; the text was changed since",
}
KINDS = frozenset((DocumentKind.CERTIFICATE,))
_NONE = frozenset(("", "n/a", "na", "none", "-", "optional", "not applicable", "{optional - for integrity}", "null"))
_PREFIX = re.compile(r"(?:sha|md|blake|b)[\w-]{0,8}\s{0,2}[:=\s]\s{0,2}|0x", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]+", re.ASCII)
_SHORTEST_HEX = 8
_LENGTHS = frozenset((16, 20, 28, 32, 48, 64))
_MOST_CITED = 50
_HASH_LINE = re.compile(
    rb"^[^\r\n]{0,40}hash\b[^\r\n:|]{0,40}[:|][^\r\n]*(?:\r\n|\r|\n|\Z)", re.MULTILINE | re.IGNORECASE
)
_DIGESTS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    *(
        (name, lambda data, name=name: hashlib.new(name, data, usedforsecurity=False).digest())
        for name in (
            "sha256",
            "sha1",
            "md5",
            "sha512",
            "sha384",
            "sha224",
            "sha3_256",
            "sha3_512",
            "blake2b",
            "blake2s",
        )
    ),
    ("blake2b-256", lambda data: hashlib.blake2b(data, digest_size=32).digest()),
    ("git blob", lambda data: hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()),
)


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield problems of the hash; the digested input is identified by computing candidate digests."""
    stated = [each for each in subject.document.said("certificate hash") if each.text.lower() not in _NONE]
    for each in stated[:1]:
        wanted = _digest(each.text)
        if wanted is None:
            yield AuditProblem("hash-no-digest", f"{quoted(each.text)} is no digest", each.line)
        elif not any(
            _is_digest_of(wanted, data) for data in (*_variants(subject.document.data), *read_records(subject.file))
        ):
            yield _of_what(subject, wanted, each.line)


def _of_what(subject: Subject, wanted: bytes, line: int) -> AuditProblem:
    history, added = subject.history, subject.added
    if history is not None and added is not None:
        first = history.read(history.blob(added.commit, subject.where) or "0")
        if first is not None and any(_is_digest_of(wanted, data) for data in _variants(first)):
            return AuditProblem("hash-of-earlier", "the text was changed after it was committed with this hash", line)
    if history is not None:
        folder = subject.where.rpartition("/")[0]
        paths = list(dict.fromkeys(citation.path for citation in subject.document.citations))[:_MOST_CITED]
        for commit in commits_for(subject)[:2]:
            for found in (each for path in paths for each in find_cited(history, commit, path, folder)[:1]):
                data = history.read(history.blob(commit, found))
                if data is not None and _is_digest_of(wanted, data):
                    return AuditProblem("hash-of-other", f"it is a digest of {quoted(found)}, not of this text", line)
    return AuditProblem("hash-not-of-text", "no common digest of this text, with or without the hash, is that", line)


def _digest(text: str) -> bytes | None:
    """Return the bytes of a stated hash, or its first bytes if it is abbreviated; None if it is not a hash."""
    bare = _PREFIX.sub("", text[:300].strip(" `*\"'[]()<>."), count=1).strip(" `*\"'[]()<>.\u2026")
    if _HEX.fullmatch(bare) and len(bare) >= _SHORTEST_HEX and any(each.isdigit() for each in bare):
        return bytes.fromhex(bare[: len(bare) // 2 * 2])
    with suppress(binascii.Error, ValueError):
        plain = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        # Words are valid base64: text without a padding sign, a digit or mixed case is a word.
        is_mixed = not (bare.isupper() or bare.islower()) and any(each.isdigit() for each in bare)
        if len(plain) in _LENGTHS and ("=" in bare or is_mixed):
            return plain
    return None


def _is_digest_of(wanted: bytes, data: bytes) -> bool:
    return any(make(data)[: len(wanted)] == wanted for _, make in _DIGESTS if len(make(b"")) >= len(wanted))


def _variants(data: bytes) -> list[bytes]:
    """Return the possible texts at the time of hashing: without the hash line's value, with either line ending."""
    hashes = list(_HASH_LINE.finditer(data))
    texts = [data]
    for found in hashes[-1:]:
        line = found.group()
        name = line[: re.search(rb"[:|]", line).end()]  # type: ignore[union-attr]  # the pattern has one
        end = line[len(line.rstrip(b"\r\n")) :]
        before, after = data[: found.start()], data[found.end() :]
        texts += [before + after, before, before + name + end + after, before + name + b" " + end + after]
    found_texts = [each for text in texts for each in (text, text.replace(b"\r\n", b"\n"))]
    found_texts += [found_text.rstrip() for found_text in found_texts] + [
        found_text.strip() + b"\n" for found_text in found_texts
    ]
    return list(dict.fromkeys(found_texts))
