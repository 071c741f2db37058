"""Full-text search terms: runs of letters and digits, without case and accents."""

from __future__ import annotations

import re
import unicodedata

from esper_agents.errors import UsageError

_WORD = re.compile(r"[^\W_]+")
_LONGEST = 64
_MOST_ASKED = 32
# PostgreSQL holds a megabyte of words for a row and 16,383 places in it.
_MOST_WORDS = 16_000
_MOST_CHARACTERS = 200_000


def words_of(text: str) -> list[str]:
    """Return the words of a text, as many as a full text takes."""
    text = text[:_MOST_CHARACTERS]
    folded = text.lower() if text.isascii() else "".join(map(_folded, text))
    return [each[:_LONGEST] for each in _WORD.findall(folded)][:_MOST_WORDS]


def search_query(text: str) -> str:
    """Return what a person typed as both databases take it: each word in quotes, where only letters and digits stand.

    `loss.detach` asks for two words in a row.

    Raises:
        UsageError: There is no word in it.
    """
    runs = [words_of(each) for each in text[:_MOST_CHARACTERS].split()]
    found = list(dict.fromkeys(" ".join(each) for each in runs if each))[:_MOST_ASKED]
    if not found:
        raise UsageError(f"there is no word in {text!r}", remedy="name words with letters or digits in them")
    return " ".join(f'"{each}"' for each in found)


def _folded(character: str) -> str:
    apart = unicodedata.normalize("NFKD", character)
    return "".join(each for each in apart if unicodedata.category(each) != "Mn").casefold()
