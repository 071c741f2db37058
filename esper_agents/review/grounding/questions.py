"""Clauses of a question: each is answered by its own lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.grounding.catalogue import Concept, concepts_asked
from esper_agents.review.grounding.words import SpokenWord, is_common, pronouns, spoken_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LONGEST_QUESTION, _MOST_CLAUSES = 1_500, 3
_END = re.compile(
    r"[?;\n]+|!(?!=)|\.\s+|,?\s+(?:and|und)\s+(?=(?:also|what|how|does|do|is|are|why|which|where|when|can|will|was|wie|ist)\b)",
    re.IGNORECASE,
)
_LONGEST_RUN = 5
_VERBS = "is|are|does|do|can|will|would|should|could|has|have|ist|sind|kann"
_ASKING = "what|how|why|where|which|when|who|whether|explain|describe|understand|wondering|does it|is it"
_ASKING_GERMAN = r"wie|warum|wieso|wann|welche\w*|erkl\w+"
_ASKS = re.compile(
    rf"\?|(?:^|[.,;:!\n]\s*|\b(?:and|also|but|so|hi|hey|hello|und)\s+)(?:{_VERBS})\b"
    rf"|\b(?:{_ASKING}|{_ASKING_GERMAN})\b",
    re.IGNORECASE,
)
# Requests for a judgement of the whole, for a new text or for a measurement.
_OTHER = re.compile(
    r"\b(?:code review|review (?:the|this|my|our)|approve|sign off|merge|pull request|ready to ship|audit"
    r"|write (?:a|some|me|the|unit)|add a test|test for|benchmark|profile (?:the|this|my)|measure"
    r"|(?:faster|slower|better) than|\d+(?:\.\d+)?x)\b",
    re.IGNORECASE,
)
# A clause of so few words of its own belongs to the one before it.
_FEW_WORDS = 2
_GLUE = frozenset(("a", "the", "my", "our", "of", "der", "die", "das"))


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of a question.

    Attributes:
        text: Its words.
        words: Its words with their terms.
        concepts: Concepts that it asks about, with the terms of its words that name them.
    """

    text: str
    words: tuple[SpokenWord, ...]
    concepts: tuple[tuple[Concept, frozenset[str]], ...]

    @property
    def terms(self) -> dict[str, str]:
        """Terms of the words that say which code is meant, with the words; the order is that of the words."""
        return {
            term: word.text
            for word in self.words
            if not is_common(word.text)
            for term in word.terms
            if not (is_common(term) and len(word.terms) > 1) and not term.isdigit()
        }

    @property
    def code_terms(self) -> frozenset[str]:
        """Terms of the words that are written as code: `num_updates`, `store()`, `GradScaler`."""
        return frozenset(term for word in self.words if self._is_code(word) for term in word.terms)

    def is_code(self, words: str) -> bool:
        """Return whether words of the clause are written as code."""
        return any(word.text == words and self._is_code(word) for word in self.words)

    def _is_code(self, word: SpokenWord) -> bool:
        is_followed = re.match(r"\(|\s?=", self.text[word.end :]) is not None
        return is_followed or "_" in word.text.strip("_") or not (word.text[1:].islower() or word.text[1:].isupper())

    def runs(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the terms and the text of the words in a row that may be one name, the longest first."""
        words = [word for word in self.words if word.text.lower() not in _GLUE]
        for length in range(min(_LONGEST_RUN, len(words)), 0, -1):
            for begin in range(len(words) - length + 1):
                run = words[begin : begin + length]
                if all(is_common(word.text) for word in run):
                    continue
                yield tuple(term for word in run for term in word.terms), self.text[run[0].begin : run[-1].end]


def asks_about_behaviour(text: str) -> bool:
    """Return whether a text asks what code does, in the form of a question; a review or a new text is no behaviour.

    Args:
        text: Words of a request.
    """
    return _ASKS.search(text[:_LONGEST_QUESTION]) is not None and _OTHER.search(text[:_LONGEST_QUESTION]) is None


def clauses_of(question: str) -> tuple[Clause, ...]:
    """Return the clauses of a question that say which code is meant, at most three.

    Args:
        question: Words of a request; the first 1,500 characters are read.
    """
    found: list[Clause] = []
    for part in _parts(question[:_LONGEST_QUESTION].replace("`", " ")):
        words = tuple(spoken_words(part))
        clause = Clause(part, words, tuple(concepts_asked(part)))
        if clause.terms:
            found.append(clause)
    return tuple(found[:_MOST_CLAUSES])


def _parts(text: str) -> Iterable[str]:
    """Return the parts of a text; one with a single word of its own belongs to the part before it."""
    parts: list[str] = []
    for part in (each.strip(" ,.:-") for each in _END.split(text) if each):
        words = spoken_words(part)
        own = [word for word in words if not is_common(word.text)]
        refers_back = any(word.text.lower() in pronouns() for word in words)
        is_short = len(own) <= _FEW_WORDS and not any("_" in word.text for word in own)
        if parts and (is_short or refers_back):
            parts[-1] = f"{parts[-1]}, {part}"
        elif part:
            parts.append(part)
    return parts
