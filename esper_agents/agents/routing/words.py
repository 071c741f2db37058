"""Text to words that compare: case, accents and endings aside, with where each stood in the text."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

# Scripts without spaces give one word for each character: a phrase of them then matches wherever it stands.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RAISED = re.compile(r"[A-Z]\w*(?:Error|Exception|Warning|Unsupported|Backward\d+)")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_NUMBER = r"\d+(?:[.,]\d+)*"
_UNIT_OF_TIME = "(?:ns|us|ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?)"
_WORD = re.compile(
    rf"(?P<factor>{_NUMBER}\s?[x\u00d7](?![^\W_]))|(?P<share>{_NUMBER}\s?(?:%|percent\b))"
    rf"|(?P<huge>\d+(?:\.\d+)?e\+?\d+\b)|(?P<size>{_NUMBER}\s?[kmgt]i?b\b)|(?P<time>{_NUMBER}\s?{_UNIT_OF_TIME}\b)"
    rf"|[{_UNSPACED}]|(?P<number>\d+(?:[.,]\d+)+)"
    rf"|(?:(?![{_UNSPACED}])[^\W_])+(?:['\u2019](?:t|s|re|ve|ll|d|m)\b)?",
    re.IGNORECASE,
)
_VOWEL = re.compile("[aeiouy]")
_SHORTEST = 4
# What any number compares as, and what the signs of other quantities begin with.
NUMBER = "#"
_SIGNS = {"factor": "#x", "share": "#%", "huge": "#e", "size": "#gb", "time": "#s", "number": NUMBER}


class Word(NamedTuple):
    """One word of a text.

    Attributes:
        stem: What it compares as; `#x` is a factor such as 1.3x, `#%` a share, `#gb` a size, `#s` a time,
            `#e` a number with an exponent, `#` any other number.
        folded: The same with its ending.
        start: Where it begins in the text.
        end: Where it ends.
    """

    stem: str
    folded: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Return the words of a text, in order.

    Names are taken apart at dots, underscores and hyphens, and the class name of an exception at its capitals, so
    that `torch.cuda.OutOfMemoryError` holds the words of "out of memory".
    """
    found: list[Word] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        sign = _SIGNS.get(match.lastgroup or "")
        if sign:
            found.append(Word(sign, sign, start, end))
            continue
        raw = match.group()
        if raw[0].isupper() and _RAISED.fullmatch(raw):
            for hump in _HUMP.finditer(raw):
                found.append(Word(*forms(hump.group()), start + hump.start(), start + hump.end()))  # noqa: PERF401
        else:
            found.append(Word(*forms(raw), start, end))
    return found


@lru_cache(maxsize=20_000)
def forms(word: str) -> tuple[str, str]:
    """Return what a word compares as, without its ending and with it."""
    folded = _fold(word)
    if folded.isdigit():
        return NUMBER, NUMBER
    if not folded.isascii() or len(folded) < _SHORTEST:
        return folded, folded
    return _without_ending(folded), folded


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower().replace("'", "")
    bare = "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))
    return unicodedata.normalize("NFC", bare).casefold().replace("'", "").replace("\u2019", "")


def _without_ending(word: str) -> str:
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-2] if word.endswith("sses") else word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST - 1 and _VOWEL.search(root) and not root.endswith("e"):
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
            break
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST else word
