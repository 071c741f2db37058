"""The lexicon of the router: what people say, whom it speaks for, and how a request is read; from `prompts/routing`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.agents.routing.phrases import PhraseIndex
from esper_agents.agents.routing.words import words
from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Where(StrEnum):
    """In what a cue is looked for."""

    TEXT = "text"
    CODE = "code"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Cue:
    """One idea, with how far it speaks for each agent.

    Attributes:
        name: What the idea is called.
        votes: Weights by agent, in thousandths; `refused` speaks for sending the person away.
        is_bare: Whether it names no subject of its own, as "faster than" does not.
    """

    name: str
    votes: Mapping[str, int]
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Everything that the router knows of language.

    Attributes:
        cues: The phrases of the cues, by where they are looked for.
        negators: Phrases that turn round what follows.
        dismissals: Phrases that turn round what stands before.
        wishes: Phrases that say that something is asked for.
        injections: Phrases that give orders to whoever decides on the request.
        orders: Stems that ask for something where a sentence begins with them.
        wants: Stems that a negator turns round although they are part of it.
        closers: Stems that end the reach of a negator or a dismissal.
        addressing: Stems before an agent's name that speak to that agent.
        reporting: Stems after an agent's name that speak of its work, not to it.
        idle: Stems that carry nothing.
        spelling: Words that are recognised with a slip in them.
        plain: Words that are no slip, however near to one of those.
        hints: By stem, whom a single word hints at.
        agents: Every agent that some cue speaks for.
    """

    cues: Mapping[Where, PhraseIndex[Cue]]
    negators: PhraseIndex[None]
    dismissals: PhraseIndex[None]
    wishes: PhraseIndex[None]
    injections: PhraseIndex[None]
    orders: frozenset[str]
    wants: frozenset[str]
    closers: frozenset[str]
    addressing: frozenset[str]
    reporting: frozenset[str]
    idle: frozenset[str]
    spelling: frozenset[str]
    plain: frozenset[str]
    hints: Mapping[str, frozenset[str]]
    agents: frozenset[str]


_STEMS = ("orders", "wants", "closers", "addressing", "reporting")
_NOT_PHRASES = frozenset(("name", "votes", "where", "bare"))


@cache
def lexicon() -> Lexicon:
    """Return the lexicon that comes with the program, read once.

    Raises:
        DefinitionError: A file of it cannot be used.
    """
    return read_lexicon(data_folder("prompts") / "routing")


def read_lexicon(folder: Path) -> Lexicon:
    """Return the lexicon in a folder: cues from every TOML file, and how to read from `reading.toml`.

    Raises:
        DefinitionError: A file is missing, is not TOML, or has no member that it must have.
    """
    phrases: dict[Where, list[tuple[str, Cue]]] = {where: [] for where in Where}
    agents: set[str] = set()
    hinted: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.toml")):
        content = _load(path)
        for agent, text in content.get("hints", {}).items():
            for each in _stems(text):
                hinted.setdefault(each, set()).add(agent)
        for entry in content.get("cue", ()):
            cue = _cue(entry, path)
            agents.update(cue.votes)
            listed = (each for key, each in entry.items() if key not in _NOT_PHRASES)
            phrases[Where(entry.get("where", "text"))] += ((phrase, cue) for some in listed for phrase in some)
    reading = _load(folder / "reading.toml")
    try:
        idle = _stems(f"{reading['idle']} {reading['idle_abroad']}")
        return Lexicon(
            cues={where: PhraseIndex(listed) for where, listed in phrases.items()},
            hints={each: frozenset(names) for each, names in hinted.items() if each not in idle},
            agents=frozenset(agents),
            idle=idle,
            spelling=frozenset(reading["spelling"].split()),
            plain=frozenset(reading["plain"].split()),
            negators=_phrases(reading["negators"]),
            dismissals=_phrases(reading["dismissals"]),
            wishes=_phrases(reading["wishes"]),
            injections=_phrases(reading["injections"]),
            **{name: _stems(reading[name]) for name in _STEMS},
        )
    except KeyError as error:
        where = str(folder / "reading.toml")
        raise DefinitionError(where, f"no member {error}", remedy=f"add {error} to it") from error


def _cue(entry: Mapping[str, Any], path: Path) -> Cue:
    try:
        votes = {agent: weight * 1000 for agent, weight in entry["votes"].items()}
        return Cue(entry["name"], votes, is_bare=entry.get("bare", False))
    except KeyError as error:
        raise DefinitionError(str(path), f"a cue without {error}", remedy=f"give the cue {error}") from error


def _phrases(listed: list[str]) -> PhraseIndex[None]:
    return PhraseIndex((phrase, None) for phrase in listed)


def _stems(listed: str | list[str]) -> frozenset[str]:
    text = listed if isinstance(listed, str) else " ".join(listed)
    return frozenset(word.stem for word in words(text))


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise DefinitionError(str(path), "cannot be read", remedy="install esper-agents again") from error
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(str(path), f"not TOML: {error}", remedy="mend it at the place named") from error
