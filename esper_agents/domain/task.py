"""A task: what a person submits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.budget import Amount
from esper_agents.domain.status import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Task:
    """What a person submits.

    Attributes:
        request: What they ask, in their words.
        paths: What it is about, relative to the project, with forward slashes; empty where no code is attached.
        kind: The kind of question, from the words of the request.
        kind_because: The words that decided the kind.
        agent: The agent the person asked for by name, else empty.
        again: Identifier of the certificate whose question is asked again, else empty.
        options: Further options, by name.
        budget: How much the session may use, all its agents together; without a limit where it is not named.
    """

    request: str
    paths: tuple[str, ...]
    kind: Kind
    kind_because: str
    agent: str = ""
    again: str = ""
    options: dict[str, str] = field(default_factory=dict)
    budget: tuple[Amount, ...] = ()

    def is_about(self, path: str) -> bool:
        """Return whether a file is one of those that the task is about, or lies in a folder that is."""
        return is_about(self.paths, path)


def is_about(paths: Iterable[str], path: str) -> bool:
    """Return whether a file is one of the paths of a task or lies in one; every file is where there are none."""
    file, named = PurePosixPath(path), tuple(paths)
    return not named or any(file.is_relative_to(PurePosixPath(each)) for each in named)
