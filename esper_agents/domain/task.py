"""Tasks: a user's request with its paths and options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.budget import Amount
from esper_agents.domain.status import QuestionType

if TYPE_CHECKING:
    from collections.abc import Iterable


# Options that name tools, as the command line has them too.
_REPEATED = ("ask", "deny", "allow")


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
    kind: QuestionType
    kind_because: str
    agent: str = ""
    again: str = ""
    options: dict[str, str] = field(default_factory=dict)
    budget: tuple[Amount, ...] = ()

    def is_about(self, path: str) -> bool:
        """Return whether a file is one of those that the task is about, or lies in a folder that is."""
        return is_about(self.paths, path)

    def command(self, *paths: str, allow: str = "", agent: str = "", request: str = "") -> str:
        """Return the command line that submits the task again.

        Args:
            paths: What it is about, as a shell in some folder names it; the task's own paths where there are none.
            allow: A tool that it may call unasked.
            agent: Who is to have it; whom the task names where empty.
            request: What is asked instead.
        """
        words = ["esper", "submit"]
        options = [f"--{name} {quote(tool)}" for name in _REPEATED for tool in self.options.get(name, "").split()]
        options += [f"--allow {quote(allow)}"] if allow and f"--allow {quote(allow)}" not in options else []
        options += [f"--reasoner {quote(each)}" for each in [self.options.get("reasoner", "")] if each == "claude"]
        options += [f"--budget {quote(','.join(each.option for each in self.budget))}"] if self.budget else []
        if self.again and not request:
            return " ".join([*words, "--again", quote(self.again), *options])
        options += [f"--agent {quote(each)}" for each in [agent or self.agent] if each]
        said = [quote(request or self.request), *map(quote, paths or self.paths)]
        if any(each.startswith(("-", "'-")) for each in said):
            return " ".join([*words, *options, "--", *said])
        return " ".join([*words, *said, *options])


def is_about(paths: Iterable[str], path: str) -> bool:
    """Return whether a file is one of the paths of a task or lies in one; every file is where there are none."""
    file, named = PurePosixPath(path), tuple(paths)
    return not named or any(file.is_relative_to(PurePosixPath(each)) for each in named)
