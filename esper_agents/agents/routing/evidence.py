"""What in a request speaks for and against each agent, each piece with the words that it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.leaning import Leaning
from esper_agents.agents.routing.lexicon import Where, lexicon
from esper_agents.agents.routing.likeness import Likeness
from esper_agents.agents.routing.passages import Kind
from esper_agents.agents.routing.reading import Reader
from esper_agents.agents.routing.taught import habits, taught
from esper_agents.agents.routing.words import NUMBER, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.agents.routing.habits import Lean
    from esper_agents.agents.routing.likeness import Resemblance
    from esper_agents.agents.routing.reading import Stretch
    from esper_agents.agents.routing.taught import Taught
    from esper_agents.domain.agent import Agent

REFUSED = "refused"

# Weights in thousandths, on the scale of the lexicon's votes: 1000 for each point.
_NAMED = 14000
_DECLINED = -600
_EXAMPLE, _COUNTEREXAMPLE = 5000, -4000
# An agent that no cue speaks for has its own words alone, so they say more.
_EXAMPLE_ALONE = 9000
# Factors in thousandths: of a word with a slip in it, and of what is said not to be it.
_SLIPPED, _DENIED = 800, -500
# The same of what only surrounds the sentence that asks.
_BACKGROUND = 700
# And of what such a sentence begins with: what is wanted comes before what it is about.
_OPENING = 1200
_MOST_WORDS = 200
# Words of an example may stand this far apart to be cited together.
_TOGETHER = 5


class Evidence(NamedTuple):
    """One thing that speaks for or against an agent.

    Attributes:
        agent: The agent, or `refused`.
        source: What it is; counted once for each agent.
        weight_milli: How much, in thousandths; below zero against.
        cited: The words of the request that it rests on, as they stand there.
        note: What there is to say about it, where it speaks against.
        is_bare: Whether it names no subject of ours.
        is_word: Whether it is how single words lean.
        is_taught: Whether it was learnt from requests, not from what the agents say of themselves.
    """

    agent: str
    source: str
    weight_milli: int
    cited: str
    note: str = ""
    is_bare: bool = True
    is_word: bool = False
    is_taught: bool = False


class Witness:
    """Gathers the evidence in requests for a set of agents."""

    def __init__(self, agents: Sequence[Agent], requests: Sequence[Taught] | None = None) -> None:
        """Index what the definitions, the lexicon and known requests say.

        Args:
            agents: Everybody who may be given a task.
            requests: What to learn from, instead of what comes with the program.
        """
        self._lexicon = lexicon()
        self._agents = frozenset(agent.name for agent in agents)
        self._reader = Reader(self._lexicon, self._agents)
        self._likeness = Likeness(agents, self._lexicon.idle)
        self._leaning = Leaning(agents, self._lexicon.hints, self._lexicon.idle)
        self._habits = habits(taught() if requests is None else requests)

    def evidence(self, request: str, code: str, paths: Sequence[str]) -> Iterator[Evidence]:
        """Yield everything that speaks for or against anybody."""
        told: list[Stretch] = []
        stretches = list(self._reader.read(request, code, paths))
        has_wish = any(stretch.wished for stretch in stretches)
        for stretch in stretches:
            yield from self._cues(stretch, has_wish=has_wish)
            yield from self._named(stretch)
            if stretch.kind in {Kind.PROSE, Kind.EXCEPTION}:
                told.append(stretch)
                yield from self._examples(stretch)
        yield from self._words(told)

    def _cues(self, stretch: Stretch, *, has_wish: bool) -> Iterator[Evidence]:
        """Find the cues; the words of an agent's name are a name and no cue."""
        ignored = stretch.ordered.union(*(mention.positions for mention in stretch.mentions))
        for where, weight in _weights(stretch.kind).items():
            for hit in self._lexicon.cues[where].find(stretch.words):
                if ignored.intersection(hit.positions):
                    continue
                factor = weight * (_SLIPPED if stretch.slipped.intersection(hit.positions) else 1000) // 1000
                factor = factor * _standing(stretch, hit.positions[0], has_wish=has_wish) // 1000
                note = ""
                if stretch.denied.issuperset(hit.positions):
                    factor, note = factor * _DENIED // 1000, "said not to be it"
                cited = stretch.cited(hit.positions)
                is_inner = stretch.kind is Kind.CODE or stretch.is_part_of_name(hit.positions)
                for agent, vote in hit.meaning.votes.items():
                    if agent == REFUSED and is_inner:
                        continue
                    yield Evidence(agent, hit.meaning.name, vote * factor // 1000, cited, note, hit.meaning.is_bare)

    def _named(self, stretch: Stretch) -> Iterator[Evidence]:
        for agent, positions, is_asked in stretch.mentions:
            cited = stretch.cited(positions)
            if stretch.denied.issuperset(positions):
                yield Evidence(agent, "named", _NAMED * _DENIED // 1000, cited, "not to be asked")
            elif is_asked:
                yield Evidence(agent, "named", _NAMED, cited, is_bare=False)

    def _words(self, told: Sequence[Stretch]) -> Iterator[Evidence]:
        placed = [(each, at) for each in told for at in range(len(each.words)) if at not in each.denied | each.ordered][
            :_MOST_WORDS
        ]
        heard = [stretch.words[at] for stretch, at in placed]
        for is_taught, leans in ((False, self._leaning.of(heard)), (True, self._habits.of(heard))):
            for lean in leans:
                yield from self._lean(lean, placed, is_taught=is_taught)
        for stretch, at in placed:
            for agent in self._leaning.declined_by(stretch.words[at]):
                source = f"declined {stretch.words[at].stem}"
                yield Evidence(agent, source, _DECLINED, stretch.cited((at,)), "it declines that")

    def _lean(self, lean: Lean, placed: Sequence[tuple[Stretch, int]], *, is_taught: bool) -> Iterator[Evidence]:
        is_bare = is_taught or lean.agent in self._lexicon.agents
        kind = "taught" if is_taught else "word"
        rest = lean.weight_milli
        for number, weight in lean.towards:
            stretch, at = placed[number]
            if stretch.words[at].stem in self._lexicon.idle:
                continue
            rest -= weight
            source, cited = f"{kind} {stretch.words[at].stem}", stretch.cited((at,))
            yield Evidence(lean.agent, source, weight, cited, "", is_bare, is_word=True, is_taught=is_taught)
        yield Evidence(lean.agent, f"other {kind}s", rest, "", is_word=True, is_taught=is_taught)

    def _examples(self, stretch: Stretch) -> Iterator[Evidence]:
        for like in self._likeness.examples_like(stretch.words):
            cited = _shared(stretch, like, self._lexicon.idle)
            if like.example.is_for:
                is_known = like.agent in self._lexicon.agents
                weight = like.degree_milli * (_EXAMPLE if is_known else _EXAMPLE_ALONE) // 1000
                yield Evidence(like.agent, "example", weight, cited, is_bare=is_known)
                continue
            weight = like.degree_milli * _COUNTEREXAMPLE // 1000
            yield Evidence(like.agent, "counterexample", weight, cited, f"an example against it: {like.example.text!r}")
            if like.example.instead in self._agents:
                yield Evidence(like.example.instead, "example against another", -weight, cited)


def _standing(stretch: Stretch, at: int, *, has_wish: bool) -> int:
    """Return how far what begins at a position counts by where it stands towards what is asked."""
    if at in stretch.opening:
        return _OPENING
    is_aside = has_wish and stretch.kind is Kind.PROSE and at not in stretch.wished
    return _BACKGROUND if is_aside else 1000


def _weights(kind: Kind) -> Mapping[Where, int]:
    """Return which cues are looked for in a passage, and how far they count there.

    Code and frames mention much that the question is not about.
    """
    match kind:
        case Kind.PROSE | Kind.EXCEPTION:
            return {Where.TEXT: 1000}
        case Kind.CODE:
            return {Where.TEXT: 200, Where.CODE: 1000}
        case Kind.FRAME:
            return {Where.TEXT: 250, Where.PATH: 250}
        case Kind.PATH:
            return {Where.PATH: 1000}


def _shared(stretch: Stretch, like: Resemblance, idle: frozenset[str]) -> str:
    theirs = {word.stem for word in words(like.example.text)} - idle - {NUMBER}
    shared = [at for at, word in enumerate(stretch.words) if word.stem in theirs]
    return stretch.cited([at for at in shared if at - shared[0] <= _TOGETHER]) if shared else ""
