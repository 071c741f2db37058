"""Search words of certificates, tokenised alike on every database."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.evidence_values import found_in, mapping_in
from esper_agents.domain.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.domain.certificate import Certificate

# PostgreSQL stores up to 16,383 positions and a megabyte of words per text; the worst findings come first.
MOST_WORDS = 16_000
MOST_CHARACTERS = 200_000
LONGEST_WORD = 64
MOST_ASKED = 32
_WORD = re.compile(r"[^\W_]+")
_BEFORE, _AFTER = 50, 110
_SHOWN_ANYWAY = ("agent", "component")
_TEXTS = (
    ("agent", ("agent",)),
    ("component", ("component",)),
    ("request", ("task", "request")),
    ("summary", ("summary",)),
    ("rationale", ("verdict", "rationale")),
)


@dataclass(frozen=True, slots=True)
class SearchableText:
    """Searchable text of a certificate.

    Attributes:
        where: Location of the text, such as `summary` or `ESP301 at train.py:9`.
        text: The text.
    """

    where: str
    text: str


def passages(certificate: Certificate) -> Iterator[SearchableText]:
    """Yield the searchable texts of a certificate, most relevant first."""
    yield SearchableText("agent", certificate.agent)
    yield SearchableText("component", certificate.component)
    yield SearchableText("request", certificate.task.request)
    yield SearchableText("summary", certificate.summary)
    yield SearchableText("rationale", certificate.verdict.rationale)
    for finding in certificate.findings:
        claim = finding.claim
        where, named = f"{claim.rule} at {claim.location}", f"{claim.rule} {claim.name} {claim.location.path}"
        yield from (SearchableText(where, each) for each in (claim.message, claim.excerpt, named))


def recorded_passages(data: bytes) -> Iterator[SearchableText]:
    """Yield the same texts from a certificate's bytes, many times as fast; nothing if they are not a certificate.

    The bytes are assumed to be as issued: strict parsing checks far more than an excerpt needs.
    """
    try:
        record = mapping_in(json.loads(data), "predicate")
    except (ValueError, RecursionError):
        return
    for name, where in _TEXTS:
        if isinstance(said := found_in(record, *where), str):
            yield SearchableText(name, said)
    findings = found_in(record, "findings")
    for finding in findings if isinstance(findings, list) else []:
        claim = mapping_in(finding, "claim")
        path, line = (found_in(claim, "location", name) for name in ("path", "line"))
        rule, name, message, excerpt = (str(claim.get(each)) for each in ("rule", "name", "message", "excerpt"))
        place, named = f"{rule} at {path}:{line}", f"{rule} {name} {path}"
        yield from (SearchableText(place, each) for each in (message, excerpt, named))


def searched_text(certificate: Certificate) -> str:
    """Return the words of a certificate separated by spaces, for the index; equal texts count once."""
    found: list[str] = []
    size = 0
    for text in dict.fromkeys(passage.text for passage in passages(certificate)):
        for word in words_of(plain(text[:MOST_CHARACTERS])):
            size += len(word) + 1
            if len(found) == MOST_WORDS or size > MOST_CHARACTERS:
                return " ".join(found)
            found.append(word)
    return " ".join(found)


def words_of(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits, without case and accents."""
    return [each[:LONGEST_WORD] for each in _WORD.findall(_folded(text))]


def asked_words(text: str) -> tuple[tuple[str, ...], ...]:
    """Parse search words: for each typed word, the sequence of indexed words that it stands for.

    `loss.detach` stands for two words in sequence. The result has letters and digits only, so no query syntax.
    """
    asked = (tuple(words_of(each)) for each in text[:MOST_CHARACTERS].split())
    return tuple(each for each in dict.fromkeys(asked) if each)[:MOST_ASKED]


def best_passage(said: Iterable[SearchableText], asked: tuple[tuple[str, ...], ...]) -> SearchableText | None:
    """Return the text with most of the search words, cut to the words around the match; None if there is no match.

    Args:
        said: Texts of a certificate.
        asked: Search words; see `asked_words`.
    """
    best: tuple[tuple[int, bool], SearchableText, int] | None = None
    for passage in said:
        at, count = _hits(passage.text, asked)
        # Agent and component are displayed anyway.
        worth = (count, passage.where not in _SHOWN_ANYWAY)
        if count and (best is None or worth > best[0]):
            best = (worth, passage, at)
        if worth == (len(asked), True):
            break
    return SearchableText(best[1].where, _around(best[1].text, best[2])) if best else None


def _hits(text: str, asked: tuple[tuple[str, ...], ...]) -> tuple[int, int]:
    """Return the position of the first match in a text, and the number of matching words."""
    text = text[:MOST_CHARACTERS]
    folded, origin = _folded_with_origin(text)
    possible = [phrase for phrase in asked if phrase[0] in folded]
    if not possible:
        return 0, 0
    found = list(_WORD.finditer(folded))
    words = [each.group()[:LONGEST_WORD] for each in found]
    places = []
    for phrase in possible:
        size = len(phrase)
        at = next((n for n in range(len(words) - size + 1) if tuple(words[n : n + size]) == phrase), None)
        if at is not None:
            places.append(origin[found[at].start()])
    return (min(places) if places else 0), len(places)


def _around(text: str, at: int) -> str:
    start, end = max(at - _BEFORE, 0), at + _AFTER
    if start:
        # Not in the middle of a word.
        start = next((n + 1 for n in range(start, at) if text[n].isspace()), start)
    if end < len(text):
        end = next((n for n in range(end, at, -1) if text[n].isspace()), end)
    said = " ".join(text[start:end].split())
    return f"{'... ' if start else ''}{said}{' ...' if end < len(text) else ''}"


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_folded_character, text))


def _folded_with_origin(text: str) -> tuple[str, list[int] | range]:
    """Return folded text, and for each of its characters the index of the original character."""
    if text.isascii():
        return text.lower(), range(len(text))
    parts = [_folded_character(each) for each in text]
    return "".join(parts), [at for at, part in enumerate(parts) for _ in part]


def _folded_character(character: str) -> str:
    apart = unicodedata.normalize("NFKD", character)
    return "".join(each for each in apart if unicodedata.category(each) != "Mn").casefold()
