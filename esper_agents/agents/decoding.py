"""Decode the bytes of a definition: encodings, mojibake, line ends, control characters."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.agents.definition_warnings import DefinitionWarnings

MAX_BYTES = 1_000_000

_SAVE_AS_UTF8 = "save the file as UTF-8 without a byte-order mark"
_ROUNDS_OF_MENDING = 3

# Windows-1252 leaves five bytes undefined; programs that garble text keep them unchanged.
_CP1252 = {byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0x100)}
_BYTE_OF = {character: byte for byte, character in _CP1252.items()}


def _class_of(first: int, last: int) -> str:
    return "[" + "".join(re.escape(_CP1252[byte]) for byte in range(first, last + 1)) + "]"


_CONTINUATION = _class_of(0x80, 0xBF)
# Only characters in common use: Latin-1 letters, punctuation, arrows, line drawing, emoji. A wider set would change
# correct French, such as a quotation that ends in an accented letter and a guillemet.
_MOJIBAKE = re.compile(
    f"{_class_of(0xC2, 0xC3)}{_CONTINUATION}|{_CP1252[0xE2]}{_CONTINUATION}{{2}}|{_CP1252[0xF0]}{_CONTINUATION}{{3}}"
    f"|{_CP1252[0xEF]}{_CONTINUATION}{{2}}"
)
_LINE_END = re.compile(r"\r\n?")
# Control characters, characters that reorder or hide text, surrogates, and invisible tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)


def decode(raw: bytes, notes: DefinitionWarnings) -> str:
    """Return the text of a definition with line feeds only, and record a warning for every correction.

    Raises:
        DefinitionError: The file is too long, empty, binary, or in an unknown encoding.
    """
    if len(raw) > MAX_BYTES:
        raise notes.refusal(f"larger than {MAX_BYTES} bytes", remedy="move reference material into a skill")
    text = _decode_bytes(raw, notes)
    if "\0" in text:
        raise notes.refusal("contains NUL bytes, so it is not a text file", remedy="replace it with a Markdown file")
    if not text.strip():
        raise notes.refusal("the file is empty", remedy="write a description and instructions, or delete the file")
    return _without_unsafe(_with_line_feeds(_mended(text, notes), notes), notes)


def _decode_bytes(raw: bytes, notes: DefinitionWarnings) -> str:
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if raw.startswith(mark):
            notes.add(1, f"starts with a byte-order mark ({encoding})", _SAVE_AS_UTF8)
            return _decode_marked(raw.removeprefix(mark) if encoding == "utf-8" else raw, encoding, notes)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return _decode_legacy(raw, raw.count(b"\n", 0, error.start) + 1, notes)


def _decode_marked(raw: bytes, encoding: str, notes: DefinitionWarnings) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise notes.refusal(
            f"is not valid {encoding}, which its byte-order mark declares", remedy=_SAVE_AS_UTF8
        ) from error


def _decode_legacy(raw: bytes, line: int, notes: DefinitionWarnings) -> str:
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError as error:
        raise notes.refusal("is neither UTF-8 nor Windows-1252 text", remedy=_SAVE_AS_UTF8, line=line) from error
    notes.add(line, "is not UTF-8; read as Windows-1252", _SAVE_AS_UTF8)
    return text


def _mended(text: str, notes: DefinitionWarnings) -> str:
    count, line, first = 0, 0, ""
    for _ in range(_ROUNDS_OF_MENDING):
        found = [match for match in _MOJIBAKE.finditer(text) if _mend(match[0]) is not None]
        if not found:
            break
        if not count:
            count, line, first = len(found), text.count("\n", 0, found[0].start()) + 1, found[0][0]
        text = _MOJIBAKE.sub(lambda match: _mend(match[0]) or match[0], text)
    if count:
        notes.add(
            line, f"{count} garbled characters such as {first!r} were corrected", "save the corrected text as UTF-8"
        )
    return text


def _mend(garbled: str) -> str | None:
    try:
        return bytes(_BYTE_OF[character] for character in garbled).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _with_line_feeds(text: str, notes: DefinitionWarnings) -> str:
    if "\r" not in text:
        return text
    notes.add(1, "lines end in a carriage return", "save the file with Unix line ends")
    return _LINE_END.sub("\n", text)


def _without_unsafe(text: str, notes: DefinitionWarnings) -> str:
    found = _UNSAFE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        notes.add(line, "control or invisible characters were removed", "delete them from the file")
    return remove_unsafe(text)


def remove_unsafe(text: str) -> str:
    """Return text without terminal control characters and without characters that reorder or hide text."""
    return _UNSAFE.sub("", text)
