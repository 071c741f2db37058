"""Classify a request by its words: question type, speed-up or change.

The trigger words are in `certificates/question_kinds.toml`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.domain.status import QuestionType
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The most formal clause of a request decides.
_FORMALITY = (QuestionType.GO, QuestionType.APPROVAL, QuestionType.RECOMMENDATION, QuestionType.ADVICE)
# The most specific phrase of a clause decides: "check whether B is faster" asks for a comparison.
_SPECIFICITY = (QuestionType.GO, QuestionType.RECOMMENDATION, QuestionType.APPROVAL, QuestionType.ADVICE)
_NOTHING = "no word asks for a judgement"
_LONGEST_REQUEST = 20_000
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CLAUSE_END = re.compile(r"([.?!;:])(?=\s|$)|\n")
_LONGEST_BECAUSE = 80
# Phrases take time proportional to the square of a word's length; no trigger is longer.
_LONGEST_WORD = 100
_WORD = re.compile(r"[^\s,;:!?¿¡\"“”()\[\]{}<>]+")

_Words: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Clause:
    words: _Words
    has_question_mark: bool


@dataclass(frozen=True, slots=True)
class KindOfQuestion:
    """Question type of a request.

    Attributes:
        kind: Question type.
        because: Words of the request that decided it, or a note that there were none.
    """

    kind: QuestionType
    because: str


@dataclass(frozen=True, slots=True)
class _StatementWords:
    """Words that tell "the first steps are fine" from "are the first steps fine".

    Attributes:
        verbs: First words of phrases that ask only in a question.
        before: Words that may stand before the verb of a question.
        asking: Words that make a question of the statement after them, such as `whether`.
        tags: Last words that make a question of the statement before them, as in `this is fine, right`.
    """

    verbs: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()

    def is_statement(self, clause: _Clause, words_before: _Words, match: str) -> bool:
        """Return whether a phrase of a clause states something and asks for nothing."""
        if match.split(maxsplit=1)[0].casefold() not in self.verbs or clause.has_question_mark:
            return False
        is_inverted = all(word in self.before for word in words_before)
        last = clause.words[-1].casefold()
        has_tag = last in self.tags and not match.casefold().endswith(last)
        return not is_inverted and not has_tag and self.asking.isdisjoint(words_before)


@dataclass(frozen=True, slots=True)
class _Triggers:
    words: dict[str, QuestionType]
    phrases: dict[QuestionType, tuple[str, ...]]
    openers: tuple[str, ...]
    things: frozenset[str]
    negations: frozenset[str]
    statements: _StatementWords
    nouns: frozenset[str]
    verb_after: frozenset[str]
    purposes: frozenset[str]
    joint: re.Pattern[str]
    speed_up: tuple[str, ...]
    speed_words: frozenset[str]
    speed_figures: tuple[re.Pattern[str], ...]
    change: tuple[str, ...]
    change_words: frozenset[str]
    change_figures: tuple[re.Pattern[str], ...]
    change_code: tuple[str, ...]


@cache
def kinds_text() -> str:
    """Return the text of the shipped trigger table, byte for byte."""
    return (data_folder("certificates") / "question_kinds.toml").read_bytes().decode("utf-8")


def kind_of(request: str, table: str = "") -> KindOfQuestion:
    """Return the question type of a request; advice if no word asks for a verdict.

    Reads the first 20,000 characters. Total: every text has a question type.

    Args:
        request: Text of the request.
        table: Text of the trigger table; the shipped one if empty.
    """
    triggers = _triggers(table)
    text = unicodedata.normalize("NFC", request[:_LONGEST_REQUEST]).replace("’", "'")  # noqa: RUF001 - as people type it
    asked = [found for clause in _clauses(text, triggers) if (found := _kind_of_clause(clause, triggers))]
    return min(
        asked, key=lambda found: _FORMALITY.index(found.kind), default=KindOfQuestion(QuestionType.ADVICE, _NOTHING)
    )


def speed_up_asked(request: str) -> str:
    """Return the words of a request that ask for or claim a speed-up; empty if there are none.

    Reads the first 20,000 characters. Total.
    """
    triggers, text = _triggers(""), _prose(request)
    figure = _figure(text, triggers.speed_figures)
    return figure or _first_of(text, triggers, triggers.speed_up, triggers.speed_words)


def change_asked(request: str) -> str:
    """Return the words of a request that refer to a merge or a change; empty if there are none.

    Reads the first 20,000 characters. Total.
    """
    triggers, text = _triggers(""), _prose(request)
    found = _first_of(text, triggers, triggers.change, triggers.change_words, code=triggers.change_code)
    return found or _figure(text, triggers.change_figures)


def _prose(request: str) -> str:
    """Return the part of a request that is read, without code."""
    text = unicodedata.normalize("NFC", request[:_LONGEST_REQUEST]).replace("’", "'")  # noqa: RUF001 - as people type it
    return _CODE.sub(" `code` ", text)


def _figure(text: str, figures: tuple[re.Pattern[str], ...]) -> str:
    found = next((match for figure in figures if (match := figure.search(text))), None)
    return " ".join(found.group().split())[:_LONGEST_BECAUSE] if found else ""


def _first_of(
    text: str,
    triggers: _Triggers,
    phrases: tuple[str, ...],
    wanted: frozenset[str],
    code: tuple[str, ...] = (),
) -> str:
    """Return the first trigger phrase or word of a text; empty if there is none.

    Phrases of `code` are skipped.
    """
    for every in _clauses(text, triggers):
        clause = " ".join(every.words)
        for each in _possible(code, clause):
            clause = each.sub("`code`", clause)
        words = tuple(clause.split())
        for phrase in _possible(phrases, clause):
            for match in phrase.finditer(clause):
                if not _is_negated(tuple(clause[: match.start()].casefold().split()), triggers):
                    return match.group()[:_LONGEST_BECAUSE]
        for position, word in enumerate(words):
            if word.casefold() in wanted and _asks(words, position, triggers):
                return word
    return ""


def _clauses(text: str, triggers: _Triggers) -> list[_Clause]:
    without_code = _CODE.sub(" `code` ", text)
    split = _CLAUSE_END.split(without_code)
    sentences = zip_longest(split[::2], split[1::2])
    parts = [
        (part, end == "?") for sentence, end in sentences for part in triggers.joint.split(" ".join(sentence.split()))
    ]
    return [
        _Clause(words, has_question_mark)
        for part, has_question_mark in parts
        if (words := tuple(word.rstrip(".'")[:_LONGEST_WORD] for word in _WORD.findall(part)))
    ]


def _kind_of_clause(every: _Clause, triggers: _Triggers) -> KindOfQuestion | None:
    words = every.words
    clause = " ".join(words)
    opener = next((match for phrase in _possible(triggers.openers, clause) if (match := phrase.match(clause))), None)
    if opener:
        return KindOfQuestion(QuestionType.ADVICE, opener.group())
    for kind in _SPECIFICITY:
        for phrase in _possible(triggers.phrases[kind], clause):
            match = phrase.search(clause)
            before = tuple(clause[: match.start()].casefold().split()) if match else ()
            if not match or _is_negated(before, triggers):
                continue
            if kind is not QuestionType.APPROVAL or not triggers.statements.is_statement(every, before, match.group()):
                return KindOfQuestion(kind, match.group()[:_LONGEST_BECAUSE])
    for position, word in enumerate(words):
        known = triggers.words.get(word.casefold())
        if known and _asks(words, position, triggers) and not _is_noun_or_purpose(known, words, position, triggers):
            return KindOfQuestion(known, word[:_LONGEST_BECAUSE])
    return None


def _asks(words: _Words, position: int, triggers: _Triggers) -> bool:
    before = tuple(word.casefold() for word in words[:position])
    is_thing = bool(before) and before[-1] in triggers.things
    return not is_thing and not _is_negated(before, triggers)


def _is_noun_or_purpose(kind: QuestionType, words: _Words, position: int, triggers: _Triggers) -> bool:
    """Return whether a word names a thing (`overfit test`) or says what for (`want to ship`)."""
    if not position:
        return False
    before = words[position - 1].casefold()
    if kind is QuestionType.GO:
        return before in triggers.purposes
    return words[position].casefold() in triggers.nouns and before not in triggers.verb_after


def _is_negated(before: _Words, triggers: _Triggers) -> bool:
    return any(word in triggers.negations for word in before[-2:])


@cache
def _triggers(text: str) -> _Triggers:
    """Return the triggers of a table; of the shipped one if the text is empty."""
    table = tomllib.loads(text or kinds_text())
    words = {word.casefold(): kind for kind in reversed(_SPECIFICITY) for word in table[kind.value]["words"]}
    asking = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return _Triggers(
        words=words,
        phrases={kind: tuple(table[kind.value]["phrases"]) for kind in _SPECIFICITY},
        openers=tuple(table["openers"]),
        things=frozenset(table["things"]),
        negations=frozenset(table["negations"]),
        # Tables of earlier versions have none, and statements ask for an approval by them.
        statements=_StatementWords(**{name: frozenset(words) for name, words in table.get("statements", {}).items()}),
        nouns=frozenset(table.get("nouns", {}).get("words", ())),
        verb_after=frozenset(table.get("nouns", {}).get("verb_after", ())),
        purposes=frozenset(table.get("nouns", {}).get("purposes", ())),
        joint=re.compile(rf",?\s+(?:and|then|und|et|y)\s+(?:then\s+|also\s+)?(?=(?:{asking})\b)", re.IGNORECASE),
        speed_up=tuple(table["speed-up"]["phrases"]),
        speed_words=frozenset(table["speed-up"]["words"]),
        speed_figures=tuple(re.compile(each, re.IGNORECASE) for each in table["speed-up"]["figures"]),
        # Tables of earlier versions, which old certificates reference, have none.
        change=tuple(table.get("change", {}).get("phrases", ())),
        change_words=frozenset(table.get("change", {}).get("words", ())),
        change_figures=tuple(re.compile(each, re.IGNORECASE) for each in table.get("change", {}).get("figures", ())),
        change_code=tuple(table.get("change", {}).get("code", ())),
    )


def _possible(phrases: Iterable[str], clause: str) -> Iterator[re.Pattern[str]]:
    """Yield the patterns of the phrases that a clause can contain, by their first words: compiling all takes long."""
    text = clause.lower()
    for phrase in phrases:
        # Beyond ASCII, more than the lower-case letters are equal if case is ignored.
        if not text.isascii() or any(word in text or not word.isascii() for word in _first_words(phrase)):
            yield _pattern(phrase)


@cache
def _first_words(phrase: str) -> tuple[str, ...]:
    first = next((token for token in phrase.split() if token != "*"), "")  # noqa: S105
    return tuple(first.lower().split("|"))


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    pieces = [
        r"(?:\S+ ){0,6}?" if token == "*" else "(?:" + "|".join(map(re.escape, token.split("|"))) + ") "  # noqa: S105
        for token in phrase.split()
    ]
    body = "".join(pieces).removesuffix(" ")
    return re.compile(rf"(?<!\S){body}(?!\S)", re.IGNORECASE)
