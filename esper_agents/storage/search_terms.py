"""Full-text search terms: runs of letters and digits, without case and accents."""

from __future__ import annotations

import re
import unicodedata

from esper_agents.errors import UsageError

_WORD = re.compile(r"[^\W_]+")
_LONGEST = 64
_MOST_ASKED = 32
# PostgreSQL's limits per row are one megabyte of words and 16,383 positions.
_MOST_WORDS = 16_000
_MOST_CHARACTERS = 200_000


def words_of(text: str) -> list[str]:
    """Return the words of a text, up to the limits of full-text search."""
    text = text[:_MOST_CHARACTERS]
    folded = text.lower() if text.isascii() else "".join(map(_folded, text))
    return [each[:_LONGEST] for each in _WORD.findall(folded)][:_MOST_WORDS]


def search_query(text: str) -> str:
    """Return a search query for both databases: quoted phrases of letters and digits.

    `loss.detach` searches for two consecutive words.

    Raises:
        UsageError: The text contains no word.
    """
    runs = [words_of(each) for each in text[:_MOST_CHARACTERS].split()]
    found = list(dict.fromkeys(" ".join(run) for run in runs if run))[:_MOST_ASKED]
    if not found:
        raise UsageError(f"no search terms in {text!r}", remedy="use words with letters or digits")
    return " ".join(f'"{each}"' for each in found)


def _folded(character: str) -> str:
    apart = unicodedata.normalize("NFKD", character)
    return "".join(each for each in apart if unicodedata.category(each) != "Mn").casefold()
