"""Tasks: a user's request with its paths and options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.budget import Amount
from esper_agents.domain.change import BRANCH, DIFF, STAGED, change_of
from esper_agents.domain.status import QuestionType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.change import TaskChange


# Options that list tools, named as on the command line.
_REPEATED = ("ask", "deny", "allow")
# A longer request is cut in a command line.
_LONGEST_SHOWN = 300
_MATERIAL = re.compile(r"\n\s*(?:Content of \S+:|Traceback \(most recent call last\)|File \"|```)|\n\s*\n")


@dataclass(frozen=True, slots=True)
class Task:
    """A task submitted by a user.

    Attributes:
        request: The request, in the user's words.
        paths: The files and folders concerned, relative to the project, with forward slashes; empty if no code is
            attached.
        kind: The question type, determined from the words of the request.
        kind_because: The words that determined the question type.
        agent: Name of the agent that the user selected, else empty.
        again: Identifier of the certificate whose request is repeated, else empty.
        options: Further options, by name.
        budget: Budget of the session; a resource that is not listed has no limit.
    """

    request: str
    paths: tuple[str, ...]
    kind: QuestionType
    kind_because: str
    agent: str = ""
    again: str = ""
    options: dict[str, str] = field(default_factory=dict)
    budget: tuple[Amount, ...] = ()

    @property
    def change(self) -> TaskChange | None:
        """Change that the task is about; None if it is about files as they are."""
        return change_of(self.options, self.paths)

    @property
    def is_long(self) -> bool:
        """Whether the request is too long for a command line, as one with a stack trace is."""
        return _is_long(self.request)

    def is_about(self, path: str) -> bool:
        """Return whether a file is one of the task's paths or is inside one of its folders."""
        return is_about(self.paths, path)

    def command(self, *paths: str, allow: str = "", agent: str = "", request: str = "") -> str:
        """Return the command line that submits the task again.

        Args:
            paths: The paths relative to the shell's folder; the task's own paths if empty.
            allow: A tool that it may call without approval.
            agent: The agent to select; the task's own if empty.
            request: A different request; the task's own if empty. Of a long one, the first words are printed.
        """
        words = ["esper", "submit"]
        options = [f"--{name} {quote(tool)}" for name in _REPEATED for tool in self.options.get(name, "").split()]
        options += [f"--allow {quote(allow)}"] if allow and f"--allow {quote(allow)}" not in options else []
        if diff := self.options.get(DIFF):
            options.append(diff if diff in {STAGED, BRANCH} else f"--diff {quote(diff)}")
        options += [f"--reasoner {quote(each)}" for each in [self.options.get("reasoner", "")] if each == "claude"]
        options += [f"--budget {quote(','.join(each.option for each in self.budget))}"] if self.budget else []
        if self.again and not request:
            return " ".join([*words, "--rerun", quote(self.again), *options])
        options += [f"--agent {quote(each)}" for each in [agent or self.agent] if each]
        # Sources of a commit that is not checked out are not in the folder; the change names them.
        own = () if self.change and not self.change.is_checked_out else self.paths
        said = [quote(short_request(request or self.request)), *map(quote, paths or own)]
        if any(each.startswith(("-", "'-")) for each in said):
            return " ".join([*words, *options, "--", *said])
        return " ".join([*words, *said, *options])


def _is_long(request: str) -> bool:
    return len(request) > _LONGEST_SHOWN or request.strip().count("\n") > 1


def short_request(request: str) -> str:
    """Return the words of a long request without its pasted material; a short request as it is."""
    if not _is_long(request):
        return request
    words = " ".join(_MATERIAL.split(f"\n{request}", maxsplit=1)[0].split()) or " ".join(request.split())
    return words if len(words) <= _LONGEST_SHOWN else words[:_LONGEST_SHOWN].rsplit(" ", 1)[0]


def is_about(paths: Iterable[str], path: str) -> bool:
    """Return whether a file is one of the given paths or is inside one; true for every file if there are no paths."""
    file, named = PurePosixPath(path), tuple(paths)
    return not named or any(file.is_relative_to(PurePosixPath(each)) for each in named)
