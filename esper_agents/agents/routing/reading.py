"""A request as the router reads it: passages of words, slips mended, with what is denied and who is named."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.lexicon import Where
from esper_agents.agents.routing.passages import Kind, Passage, bounded, passages
from esper_agents.agents.routing.spelling import Spelling
from esper_agents.agents.routing.words import Word, forms, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.agents.routing.lexicon import Lexicon

# How many words a negator turns round at most.
_REACH = 5
_MOST_SLIPS = 40
# How many words after what asks name what is asked for.
_OPENING = 3
_MOST_PATHS = 20
# Of one passage; the subject and the question stand at its ends.
_MOST_WORDS = 600
_SENTENCE_END = re.compile("[.!?\\n]+(?=\\s|$)|[\u3002\uff01\uff1f]|\\n")
_QUESTION_MARKS = ("?", "\uff1f")
_JOINTS = frozenset("._/`=")
_JOINTS_AFTER = frozenset("_/`(=")
_CLAUSE_ENDS = re.compile("[.,;:!?()\n\u3001\u3002\uff0c\uff01\uff1f]")


class Mention(NamedTuple):
    """An agent's name in a text.

    Attributes:
        agent: The agent.
        positions: Of the words of the name.
        is_asked: Whether the agent is asked for, rather than its work reported on.
    """

    agent: str
    positions: tuple[int, ...]
    is_asked: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """A passage, read.

    Attributes:
        kind: What it is.
        text: As it stands in the request.
        words: Its words, with slips mended.
        slipped: Positions of the words that were mended.
        denied: Positions of the words that a negator or dismissal turns round.
        mentions: The agents named in it.
        wished: Positions of the words in sentences that ask for something, the others being background.
        opening: Positions of the words that such a sentence, or what asks in it, begins with.
        ordered: Positions of the words in sentences that give orders to whoever decides; they say nothing.
    """

    kind: Kind
    text: str
    words: list[Word]
    slipped: frozenset[int] = frozenset()
    denied: frozenset[int] = frozenset()
    mentions: tuple[Mention, ...] = ()
    wished: frozenset[int] = frozenset()
    opening: frozenset[int] = frozenset()
    ordered: frozenset[int] = frozenset()

    def cited(self, positions: Sequence[int]) -> str:
        """Return the text from the first to the last of some words, as it stands there."""
        return self.text[self.words[positions[0]].start : self.words[positions[-1]].end]

    def is_part_of_name(self, positions: Sequence[int]) -> bool:
        """Return whether words stand within an identifier, a path or quoted code, not in running prose."""
        before = self.text[: self.words[positions[0]].start][-1:]
        after = self.text[self.words[positions[-1]].end :][:2]
        return before in _JOINTS or after[:1] in _JOINTS_AFTER or (after[:1] == "." and after[1:].isalnum())


class Reader:
    """Reads requests."""

    def __init__(self, lexicon: Lexicon, names: Iterable[str]) -> None:
        """Take the lexicon, and the names of the agents that a request may mention."""
        self._lexicon = lexicon
        self._names: dict[str, list[tuple[list[str], str]]] = {}
        for name in sorted(names):
            parts = [word.folded for word in words(name.split(":")[-1])]
            self._names.setdefault(parts[0] if parts else "", []).append((parts, name))
        known = {*lexicon.cues[Where.TEXT].vocabulary(), *lexicon.plain, *lexicon.idle}
        self._spelling = Spelling(lexicon.spelling, known=known)

    def read(self, request: str, code: str, paths: Sequence[str]) -> Iterator[Stretch]:
        """Yield the passages of a request, the code and the paths that came with it."""
        for passage in passages(bounded(request)):
            yield self._prose(passage) if passage.kind is Kind.PROSE else _plainly(passage)
        if code.strip():
            yield _plainly(Passage(Kind.CODE, bounded(code)))
        for path in paths[:_MOST_PATHS]:
            yield _plainly(Passage(Kind.PATH, bounded(path)))

    def _prose(self, passage: Passage) -> Stretch:
        heard = _bounded_words(passage.text)
        slipped = frozenset(self._mend(heard))
        plain = Stretch(passage.kind, passage.text, heard, slipped)
        ordered = frozenset(self._ordered(plain))
        denied, mentions = frozenset(self._denied(plain)), tuple(self._mentions(plain, is_ordered=bool(ordered)))
        wished = frozenset(self._wished(plain)) - ordered
        opening = frozenset(self._opening(plain)) & wished
        return replace(plain, denied=denied, mentions=mentions, wished=wished, opening=opening, ordered=ordered)

    def _mend(self, heard: list[Word]) -> Iterator[int]:
        left = _MOST_SLIPS
        for at, word in enumerate(heard):
            meant = self._spelling.corrected(word.folded)
            if meant is not None and left:
                stem, folded = forms(meant)
                heard[at] = word._replace(stem=stem, folded=folded)
                left -= 1
                yield at

    def _denied(self, stretch: Stretch) -> Iterator[int]:
        for hit in self._lexicon.negators.find(stretch.words):
            yield from (at for at in hit.positions if stretch.words[at].stem in self._lexicon.wants)
            yield from self._within_clause(stretch, hit.positions[-1], 1)
        for hit in self._lexicon.dismissals.find(stretch.words):
            yield from range(hit.positions[0], hit.positions[-1])
            yield from self._within_clause(stretch, hit.positions[0], -1)

    def _wished(self, stretch: Stretch) -> Iterator[int]:
        """Find the sentences that ask: questions, those that say so, and those that begin with an order."""
        asking = {hit.positions[0] for hit in self._lexicon.wishes.find(stretch.words)}
        for sentence, is_question in _sentences(stretch):
            if is_question or asking.intersection(sentence) or stretch.words[sentence[0]].stem in self._lexicon.orders:
                yield from sentence

    def _opening(self, stretch: Stretch) -> Iterator[int]:
        for sentence, _ in _sentences(stretch):
            yield from sentence[:_OPENING]
        for hit in self._lexicon.wishes.find(stretch.words):
            yield from range(hit.positions[0], hit.positions[-1] + _OPENING)

    def _ordered(self, stretch: Stretch) -> Iterator[int]:
        ordering = {hit.positions[0] for hit in self._lexicon.injections.find(stretch.words)}
        for sentence, _ in _sentences(stretch) if ordering else ():
            if ordering.intersection(sentence):
                yield from sentence

    def _within_clause(self, stretch: Stretch, start: int, step: int) -> Iterator[int]:
        for at in range(start + step, start + step * (_REACH + 1), step):
            if not 0 <= at < len(stretch.words) or stretch.words[at].stem in self._lexicon.closers:
                return
            left, right = sorted((at, at - step))
            if _CLAUSE_ENDS.search(stretch.text, stretch.words[left].end, stretch.words[right].start):
                return
            yield at

    def _mentions(self, stretch: Stretch, *, is_ordered: bool) -> Iterator[Mention]:
        """Find the names of agents; one of a single word counts only where the agent is spoken to.

        Where the text gives orders to whoever reads it, a name in it is part of them and asks for nobody.
        """
        heard = stretch.words
        for at, word in enumerate(heard):
            for parts, name in self._names.get(word.folded, ()):
                end = at + len(parts)
                if [each.folded for each in heard[at:end]] != parts:
                    continue
                after = heard[end].stem if end < len(heard) else ""
                is_asked = not is_ordered and after not in self._lexicon.reporting and not self._is_work_of(heard, at)
                if len(parts) > 1 or after == "agent" or self._is_spoken_to(stretch, at):
                    yield Mention(name, tuple(range(at, end)), is_asked)

    def _is_work_of(self, heard: Sequence[Word], at: int) -> bool:
        """Return whether what stands before is a report or the like "of" somebody."""
        before = [word.stem for word in heard[max(0, at - 3) : at] if word.stem != "the"]
        return len(before) > 1 and before[-1] == "of" and before[-2] in self._lexicon.reporting

    def _is_spoken_to(self, stretch: Stretch, at: int) -> bool:
        if stretch.text[: stretch.words[at].start].endswith("@"):
            return True
        before = [word.stem for word in stretch.words[max(0, at - 2) : at] if word.stem != "the"]
        return bool(before) and before[-1] in self._lexicon.addressing


def _sentences(stretch: Stretch) -> Iterator[tuple[range, bool]]:
    """Yield the positions of the words of each sentence, and whether it is a question."""
    ends = [*_SENTENCE_END.finditer(stretch.text), None]
    first = at = 0
    for end in ends:
        limit = end.start() if end else len(stretch.text)
        while at < len(stretch.words) and stretch.words[at].start < limit:
            at += 1
        if at > first:
            yield range(first, at), end is not None and end[0].startswith(_QUESTION_MARKS)
            first = at


def _plainly(passage: Passage) -> Stretch:
    return Stretch(passage.kind, passage.text, _bounded_words(passage.text))


def _bounded_words(text: str) -> list[Word]:
    heard = words(text)
    return heard if len(heard) <= _MOST_WORDS else heard[: _MOST_WORDS // 2] + heard[-_MOST_WORDS // 2 :]
