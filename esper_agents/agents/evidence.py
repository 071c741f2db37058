"""What in a request speaks for and against each agent, each piece with the words that it rests on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.leaning import Leaning
from esper_agents.agents.lexicon import Where, lexicon
from esper_agents.agents.likeness import Likeness
from esper_agents.agents.passages import Kind, Passage, bounded, passages
from esper_agents.agents.spelling import Spelling
from esper_agents.agents.words import Word, forms, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.agents.likeness import Resemblance
    from esper_agents.domain.agent import Agent

# Weights in thousandths; the votes of the lexicon are on the same scale, 1000 for each point.
_NAMED = 8000
_SLIP = 800
_TURNED = -500
_REACH = 5
_MOST_SLIPS = 40
_MOST_PATHS = 20
# How far a cue counts by what it stands in: code mentions much that the question is not about.
_BY_KIND = {Kind.PROSE: 1000, Kind.EXCEPTION: 1000, Kind.FRAME: 250, Kind.CODE: 200, Kind.PATH: 1000}
# An agent that no cue speaks for has its own words alone, so they say more.
_DECLINED = -600
_MOST_DECLINED = 200
_EXAMPLE, _EXAMPLE_ALONE = 5000, 9000
_COUNTEREXAMPLE = -4000
_STOP = re.compile(r"[.,;:!?()\n。、，！？]")


class Evidence(NamedTuple):
    """One thing that speaks for or against an agent.

    Attributes:
        agent: The agent, or `refused`.
        source: What kind of thing it is; counted once for each agent.
        weight_milli: How much, in thousandths; below zero against.
        cited: The words of the request that it rests on, as they stand there.
        note: What else there is to say.
        is_bare: Whether it names no subject of its own.
        is_word: Whether it is the leaning of a single word.
    """

    agent: str
    source: str
    weight_milli: int
    cited: str
    note: str = ""
    is_bare: bool = True
    is_word: bool = False


@dataclass(frozen=True, slots=True)
class _Stretch:
    kind: Kind
    text: str
    words: list[Word]
    slipped: frozenset[int]

    def cited(self, positions: Sequence[int]) -> str:
        return self.text[self.words[positions[0]].start : self.words[positions[-1]].end]


class _Mention(NamedTuple):
    agent: str
    positions: tuple[int, ...]
    is_asked: bool


class Witness:
    """Gathers the evidence in requests for a set of agents."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        """Index what the definitions and the lexicon say.

        Args:
            agents: Everybody who may be given a task.
        """
        self._lexicon = lexicon()
        self._likeness = Likeness(agents, self._lexicon.idle)
        self._leaning = Leaning(agents, self._lexicon.hints, self._lexicon.idle)
        self._agents = frozenset(agent.name for agent in agents)
        self._names = {tuple(word.folded for word in words(name.split(":")[-1])): name for name in sorted(self._agents)}
        self._longest_name = max(map(len, self._names), default=0)
        targets = self._lexicon.cues[Where.TEXT].vocabulary()
        self._spelling = Spelling({*targets, *self._leaning.vocabulary})
        stems = (forms(word)[0] for word in targets)
        self._known_stems = frozenset((*stems, *self._leaning.vocabulary, *self._lexicon.idle, *self._lexicon.plain))

    def evidence(self, request: str, code: str, paths: Sequence[str]) -> list[Evidence]:
        """Return everything that speaks for or against anybody."""
        found: list[Evidence] = []
        for stretch in self._stretches(request, code, paths):
            is_prose = stretch.kind is Kind.PROSE
            turned = self._turned(stretch) if is_prose else frozenset()
            mentions = list(self._mentions(stretch)) if is_prose else []
            found += self._cues(stretch, turned, frozenset(at for each in mentions for at in each.positions))
            found += self._named(stretch, turned, mentions)
            if stretch.kind in {Kind.PROSE, Kind.EXCEPTION}:
                found += self._words_in(stretch, turned)
                found += self._examples_like(stretch)
        return found

    def _stretches(self, request: str, code: str, paths: Sequence[str]) -> Iterator[_Stretch]:
        taken = [*passages(bounded(request)), Passage(Kind.CODE, bounded(code))]
        taken += (Passage(Kind.PATH, path) for path in paths[:_MOST_PATHS])
        for passage in taken:
            found = words(passage.text)
            slipped: set[int] = set()
            if passage.kind is Kind.PROSE:
                self._correct(found, slipped)
            yield _Stretch(passage.kind, passage.text, found, frozenset(slipped))

    def _correct(self, found: list[Word], slipped: set[int]) -> None:
        for at, word in enumerate(found):
            meant = None if word.stem in self._known_stems else self._spelling.corrected(word.folded)
            if meant is not None:
                stem, folded = forms(meant)
                found[at] = word._replace(stem=stem, folded=folded)
                slipped.add(at)
                if len(slipped) >= _MOST_SLIPS:
                    return

    def _turned(self, stretch: _Stretch) -> frozenset[int]:
        """Return the positions of the words that a negator or a dismissal turns round."""
        turned: set[int] = set()
        for hit in self._lexicon.negators.find(stretch.words):
            turned.update(self._within_clause(stretch, hit.positions[-1], 1))
        for hit in self._lexicon.dismissals.find(stretch.words):
            turned.update(self._within_clause(stretch, hit.positions[0], -1))
        return frozenset(turned)

    def _within_clause(self, stretch: _Stretch, start: int, step: int) -> Iterator[int]:
        for at in range(start + step, start + step * (_REACH + 1), step):
            if not 0 <= at < len(stretch.words) or stretch.words[at].stem in self._lexicon.closers:
                return
            left, right = sorted((at, at - step))
            if _STOP.search(stretch.text, stretch.words[left].end, stretch.words[right].start):
                return
            yield at

    def _cues(self, stretch: _Stretch, turned: frozenset[int], named: frozenset[int]) -> Iterator[Evidence]:
        """Find the cues; the words of an agent's name are a name and no cue."""
        for where, factor in _looked_for_in(stretch.kind).items():
            for hit in self._lexicon.cues[where].find(stretch.words):
                if named.intersection(hit.positions):
                    continue
                by = factor * (_SLIP if stretch.slipped.intersection(hit.positions) else 1000) // 1000
                note = ""
                if turned.issuperset(hit.positions):
                    by, note = by * _TURNED // 1000, "said not to be it"
                cited = stretch.cited(hit.positions)
                for agent, vote in hit.meaning.votes.items():
                    yield Evidence(agent, hit.meaning.name, vote * by // 1000, cited, note, hit.meaning.is_bare)

    def _mentions(self, stretch: _Stretch) -> Iterator[_Mention]:
        """Find agents' names; a name of one word counts only where it is spoken to or reported on."""
        heard = stretch.words
        for at in range(len(heard)):
            for length in range(1, min(self._longest_name, len(heard) - at) + 1):
                name = self._names.get(tuple(word.folded for word in heard[at : at + length]))
                if name is None:
                    continue
                before = heard[max(at - 1, 0)].stem if at else ""
                if before == "the":
                    before = heard[at - 2].stem if at > 1 else ""
                after = heard[at + length].stem if at + length < len(heard) else ""
                is_marked = stretch.text[: heard[at].start].endswith("@")
                is_asked = is_marked or before in self._lexicon.addressing or after == "agent"
                is_reported = after in self._lexicon.reporting
                if length > 1 or is_asked:
                    yield _Mention(name, tuple(range(at, at + length)), not is_reported)

    def _named(self, stretch: _Stretch, turned: frozenset[int], mentions: Sequence[_Mention]) -> Iterator[Evidence]:
        for mention in mentions:
            if not mention.is_asked:
                continue
            cited = stretch.cited(mention.positions)
            if turned.issuperset(mention.positions):
                yield Evidence(mention.agent, "named", _NAMED * _TURNED // 1000, cited, "not to be asked")
            else:
                yield Evidence(mention.agent, "named", _NAMED, cited, is_bare=False)

    def _words_in(self, stretch: _Stretch, turned: frozenset[int]) -> Iterator[Evidence]:
        heard = [word for at, word in enumerate(stretch.words) if at not in turned]
        for lean in self._leaning.of(heard):
            is_bare = lean.agent in self._lexicon.agents
            rest = lean.weight_milli
            for at, milli in lean.towards:
                rest -= milli
                yield Evidence(lean.agent, f"word {heard[at].stem}", milli, stretch.text[heard[at].start : heard[at].end], "", is_bare, is_word=True)
            yield Evidence(lean.agent, "other words", rest, "", is_word=True)
        for word in heard[:_MOST_DECLINED]:
            for agent in self._leaning.declined_by(word):
                cited = stretch.text[word.start : word.end]
                yield Evidence(agent, f"declined {word.stem}", _DECLINED, cited, "it declines that")

    def _examples_like(self, stretch: _Stretch) -> Iterator[Evidence]:
        for like in self._likeness.examples_like(stretch.words):
            cited = self._shared(stretch, like)
            if like.example.is_for:
                is_known = like.agent in self._lexicon.agents
                weight = like.degree_milli * (_EXAMPLE if is_known else _EXAMPLE_ALONE) // 1000
                yield Evidence(like.agent, "example", weight, cited, is_bare=is_known)
                continue
            weight = like.degree_milli * _COUNTEREXAMPLE // 1000
            yield Evidence(like.agent, "counterexample", weight, cited, f"an example against it: {like.example.text!r}")
            if like.example.instead in self._agents:
                yield Evidence(like.example.instead, "example of another", -weight, cited)

    def _shared(self, stretch: _Stretch, like: Resemblance) -> str:
        theirs = {word.stem for word in words(like.example.text)} - self._lexicon.idle
        shared = [at for at, word in enumerate(stretch.words) if word.stem in theirs]
        return stretch.cited((shared[0], *(at for at in shared if at - shared[0] <= _REACH))) if shared else ""


def _looked_for_in(kind: Kind) -> Mapping[Where, int]:
    """Return which cues are looked for in a kind of passage, and how far they count there."""
    match kind:
        case Kind.PROSE | Kind.EXCEPTION:
            return {Where.TEXT: _BY_KIND[kind]}
        case Kind.CODE:
            return {Where.TEXT: _BY_KIND[kind], Where.CODE: 1000}
        case Kind.FRAME:
            return {Where.TEXT: _BY_KIND[kind], Where.PATH: _BY_KIND[kind]}
        case Kind.PATH:
            return {Where.PATH: 1000}
