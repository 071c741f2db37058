"""Requests with the agents they belong to, that ship with the program; the router learns words from them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.habits import Habits, Remark
from esper_agents.agents.routing.passages import Kind, bounded, passages
from esper_agents.agents.routing.words import words
from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# Chosen by cross-validation: more of it drowns what the phrases say.
_UNIT_MILLI = 1200


class Taught(NamedTuple):
    """A request whose answer is known.

    Attributes:
        text: The request.
        agents: Who will do; `refused` where it belongs to nobody.
    """

    text: str
    agents: tuple[str, ...]


@cache
def taught() -> tuple[Taught, ...]:
    """Return the requests in `prompts/routing/taught.jsonl`, read once.

    Raises:
        DefinitionError: The file cannot be used.
    """
    return read_taught(data_folder("prompts") / "routing" / "taught.jsonl")


def read_taught(path: Path) -> tuple[Taught, ...]:
    """Return the requests in a file: a JSON object with `text` and `agents` on each line.

    Raises:
        DefinitionError: The file cannot be read, or a line of it is something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DefinitionError(str(path), "cannot be read", remedy="install esper-agents again") from error
    return tuple(_read(line, f"{path}:{number}") for number, line in enumerate(lines, 1))


def habits(requests: Iterable[Taught]) -> Habits:
    """Return what the words of requests lean towards, `refused` included."""
    known = tuple(requests)
    return Habits({name for each in known for name in each.agents}, _remarks(known), _UNIT_MILLI)


def _read(line: str, where: str) -> Taught:
    try:
        entry = json.loads(line)
        return Taught(str(entry["text"]), tuple(map(str, entry["agents"])))
    except (ValueError, KeyError, TypeError) as error:
        remedy = 'write {"text": "...", "agents": ["..."]} on the line'
        raise DefinitionError(where, "no request with its agents", remedy=remedy) from error


def _remarks(requests: Iterable[Taught]) -> Iterator[Remark]:
    for each in requests:
        told = (part.text for part in passages(bounded(each.text)) if part.kind in {Kind.PROSE, Kind.EXCEPTION})
        # A single character of a script without spaces is no word.
        stems = {word.stem for text in told for word in words(text) if len(word.stem) > 1}
        for agent in each.agents:
            yield Remark(agent, stems, 1 / len(each.agents))
