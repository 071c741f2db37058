"""Commands: Markdown task templates, filled with arguments as plain text.

Nothing in a template is run, and no file that it mentions is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import MAX_BYTES, decode
from esper_agents.agents.definition import as_name
from esper_agents.agents.definition_warnings import DefinitionWarnings
from esper_agents.agents.front_matter import read_document
from esper_agents.agents.front_matter_fields import FieldReader, one_line
from esper_agents.agents.plugins import PluginPart
from esper_agents.errors import DefinitionError, NotFoundError, UsageError
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from esper_agents.agents.front_matter import FrontMatterDocument
    from esper_agents.agents.plugins import Plugin

LISTING = "esper run"
_MOST_CHARACTERS = 20_000
_LONGEST = 400
_PLACE = re.compile(r"\$(?:ARGUMENTS(?:\[(?P<index>\d{1,3})\])?(?!\w)|(?P<number>\d{1,3})(?!\w))")
_FROM_ZERO = re.compile(r"\$(?:ARGUMENTS\[|0(?!\w))")
_SHELL = re.compile(r"!`[^`\n]+`")
_FILE = re.compile(r"(?<!\S)@[\w./~$-]*[\w/]")


@dataclass(frozen=True, slots=True)
class Command:
    """A task template.

    Attributes:
        name: The command's name; a plugin's commands are `plugin:NAME`.
        description: Its purpose, or empty.
        argument_hint: Its arguments, such as `FILE [BATCH]`, or empty.
        tools: The only tools beyond read-only ones that it may use; None if the file has no such field.
        agent: The agent that receives the task, or empty.
        body: The template.
        inert: Parts that would run a shell or read a file in Claude Code, and are plain text here.
        path: Path of the file.
        sha256: Digest of its bytes.
    """

    name: str
    description: str
    argument_hint: str
    tools: tuple[str, ...] | None
    agent: str
    body: str
    inert: tuple[str, ...]
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Commands:
    """The available commands.

    Attributes:
        commands: Commands by name, bundled ones first.
        refused: Errors for files that cannot be used.
    """

    commands: Mapping[str, Command]
    refused: tuple[DefinitionError, ...]

    def get(self, name: str) -> Command:
        """Return a command by its name, or by the part after the colon if only one plugin has it.

        Raises:
            NotFoundError: There is no such command.
            UsageError: More than one plugin has such a command.
        """
        wanted = name.removeprefix("/")
        if wanted in self.commands:
            return self.commands[wanted]
        fitting = [command for command in self.commands if command.partition(":")[2] == wanted]
        if len(fitting) > 1:
            remedy = "name one: " + ", ".join(f"esper run {each}" for each in fitting)
            raise UsageError(f"{len(fitting)} plugins have a command {wanted!r}", remedy=remedy)
        if not fitting:
            raise NotFoundError("command", wanted, self.commands, listing=LISTING)
        return self.commands[fitting[0]]


def load_commands(plugins: Sequence[Plugin]) -> Commands:
    """Return the bundled commands and those of plugins."""
    found: dict[str, Command] = {}
    refused: list[DefinitionError] = []
    ours = [(path, "") for path in sorted((data_folder("prompts") / "commands").glob("*.md"))]
    theirs = [(path, plugin.name) for plugin in plugins for path in plugin.paths(PluginPart.COMMANDS)]
    for path, namespace in (*ours, *theirs):
        try:
            command = load_command(path, namespace=namespace)
        except DefinitionError as error:
            refused.append(error)
            continue
        if found.setdefault(command.name, command) is not command:
            problem = f"the name {command.name!r} is already used by {found[command.name].path}"
            refused.append(DefinitionError(str(path), problem, remedy="rename the file"))
    return Commands(MappingProxyType(found), tuple(refused))


def load_command(path: Path, *, namespace: str = "") -> Command:
    """Return the command defined by a file; its name is the file's name.

    Raises:
        DefinitionError: The file cannot be read, or is empty.
    """
    notes = DefinitionWarnings(str(path))
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise notes.refusal(reason, remedy="make it a readable file") from error
    document = read_document(decode(raw, notes), notes)
    if not document.body.strip():
        raise notes.refusal("there is no text below the front matter", remedy="write the task")
    fields, name = FieldReader(document.fields, notes), as_name(path.stem) or f"command-{sha256(raw).hexdigest()[:8]}"
    return Command(
        name=f"{namespace}:{name}" if namespace else name,
        description=one_line(fields.text("description"))[:_LONGEST],
        argument_hint=_hint(document),
        tools=fields.tools(),
        agent=one_line(fields.text("agent"))[:_LONGEST],
        body=document.body.strip(),
        inert=_inert(document.body),
        path=str(path),
        sha256=sha256(raw).hexdigest(),
    )


def _hint(document: FrontMatterDocument) -> str:
    """Return the argument hint of a command; YAML parses `[FILE]` without quotes as a list."""
    field = document.fields.get("argument-hint")
    if field is None:
        return ""
    items = [f"[{each}]" for each in field.content] if isinstance(field.content, list) else [str(field.content)]
    return one_line(" ".join(items))[:_LONGEST]


def _inert(body: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_SHELL.findall(body), *_FILE.findall(body))))


def filled(command: Command, arguments: Sequence[str]) -> str:
    r"""Return the request of a command with its arguments filled in.

    `$ARGUMENTS` stands for all arguments. `$1` is the first one; if the text has `$0` or `$ARGUMENTS[0]`, it counts
    from zero,
    and `$1` is the second. A missing argument is empty text. Without a placeholder, the arguments are appended.
    Arguments are plain text: a placeholder inside an argument is not filled.

    Raises:
        UsageError: The template has placeholders and there are no arguments, or the request is too long.
    """
    first = 0 if _FROM_ZERO.search(command.body) else 1

    def part(match: re.Match[str]) -> str:
        number = match["index"] or match["number"]
        if number is None:
            return " ".join(arguments)
        at = int(number) - (0 if match["index"] else first)
        return arguments[at] if 0 <= at < len(arguments) else ""

    request, places = _PLACE.subn(part, command.body)
    if places and not arguments:
        remedy = f"pass {command.argument_hint or 'files, folders or words'}; a dot is the whole project"
        raise UsageError(f"the command {command.name!r} needs arguments", remedy=remedy)
    if arguments and not places:
        request = f"{request}\n\n{' '.join(arguments)}"
    if len(request) > _MOST_CHARACTERS:
        problem = f"the request of {command.name!r} would have {len(request)} characters"
        raise UsageError(problem, remedy=f"use at most {_MOST_CHARACTERS}: name a file instead of its text")
    return request.strip()
