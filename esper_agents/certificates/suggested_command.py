"""Check suggested commands against the command line before they are recorded or printed."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "commands.json"
# Texts that only the user can supply, with a description; any other placeholder makes a command unusable.
PLACEHOLDERS = {
    "ANSWER": "your answer",
    "FILE:FUNCTION": "a function of yours that returns the inputs",
    "FILE.py:NEW": "the other version",
    "INPUTS": "such as randn(32, 128)",
    "NAME": "the function or class to measure",
    "NEW": "the new version",
    "OLD": "the old version",
    "PATH": "the files or folders concerned",
    "REQUEST": "your question",
}
_PLACEHOLDER = re.compile(
    "|".join(
        rf"(?<![\w.-]){re.escape(placeholder)}(?![\w.-])" for placeholder in sorted(PLACEHOLDERS, key=len, reverse=True)
    )
)
_IN_REQUEST = "INPUTS"
# Other programs are not checked, but a sentence is no command: it has no option, file or assignment.
_PROGRAM = re.compile(r"[a-z][\w.+-]*|[\w.~/-]*/[\w.+-]+")
_NO_SENTENCE = re.compile(r"-.*|.*[^.]\.\w+|.*/.*|.*=.*")
_PLAIN_PROGRAMS = re.compile(r"git|make|pip|pytest|python3?|uv")
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")
# Commands whose arguments are files, folders and targets of the project, and options whose values are.
_TAKES_PATHS = frozenset(("submit", "review", "gate", "agents route"))
_PATH_OPTIONS = frozenset(("--inputs", "--capture", "--step"))


@dataclass(frozen=True, slots=True)
class CommandShape:
    """Arguments and options of one command.

    Attributes:
        least: Minimum number of arguments.
        most: Maximum number of arguments; None if it is not limited.
        options: Number of values of each option, by name.
        choices: Accepted values of the options that have a closed set.
    """

    least: int
    most: int | None
    options: dict[str, int]
    choices: dict[str, list[str]]


@cache
def command_table() -> dict[str, CommandShape]:
    """Return the commands of `esper` by name, such as `certificates show`."""
    rows = json.loads((data_folder("certificates") / TABLE).read_text(encoding="utf-8"))
    return {name: CommandShape(**row) for name, row in rows.items()}


def suggested_command(command: str) -> str:
    """Return a command that can be suggested; empty if it would not parse.

    Placeholders that only a user can fill in are described in a trailing comment.

    Example:
        `esper torch compare a.py:f FILE.py:NEW` becomes
        `esper torch compare a.py:f FILE.py:NEW # FILE.py:NEW: the other version`.
    """
    text = " ".join(command.split())
    if not text or problem_of(text):
        return ""
    bare, comment = _parts(text)
    notes = [
        f"{placeholder}: {PLACEHOLDERS[placeholder]}"
        for placeholder in placeholders(text)
        if f"{placeholder}: " not in comment
    ]
    said = ", ".join(filter(None, (comment, *notes)))
    return f"{bare} # {said}" if said else bare


def is_complete(command: str) -> bool:
    """Return whether a command runs as printed, without a placeholder."""
    return not placeholders(command)


def placeholders(command: str) -> tuple[str, ...]:
    """Return the placeholders of a command, without duplicates."""
    words = _split(command)
    whole = [found for word in words if " " not in word for found in _PLACEHOLDER.findall(word)]
    # A request may contain any of the others as a word of its own.
    inside = [_IN_REQUEST for word in words if " " in word and _IN_REQUEST in word.split()]
    return tuple(dict.fromkeys((*whole, *inside)))


def problem_of(command: str) -> str:
    """Return why a command would not parse; empty if it would.

    Commands of other programs are accepted if the shell can split them.
    """
    try:
        words = shlex.split(command, comments=True)
    except ValueError as error:
        return f"the shell cannot split it: {error}"
    if any(word in {"...", "…"} or word.startswith("... ") for word in words):
        return "it has an omission"
    if words[:1] != ["esper"]:
        return "" if _is_of_other_program(words) else "it is not a command"
    name = _name(words)
    return _parsed(name, command_table()[name], words).problem if name else f"no command {' '.join(words[:3])!r}"


def _is_of_other_program(words: list[str]) -> bool:
    rest = [word for word in words if not _ASSIGNMENT.fullmatch(word)]
    if not rest or not _PROGRAM.fullmatch(rest[0]):
        return False
    return len(rest) == 1 or bool(_PLAIN_PROGRAMS.fullmatch(rest[0])) or any(map(_NO_SENTENCE.fullmatch, rest[1:]))


def missing_paths(command: str, root: Path) -> tuple[str, ...]:
    """Return the files and targets of an `esper` command that do not exist.

    Args:
        command: Command that parses.
        root: Directory that its paths are relative to.
    """
    words = _split(command)
    return tuple(word for at, word in enumerate(words) if at in _path_positions(words) and not _exists(root, word))


def seen_from(command: str, root: Path, here: Path) -> str:
    """Return an `esper` command whose paths are relative to another directory; absolute if they are outside.

    Args:
        command: Command that parses, with paths relative to the project.
        root: The project.
        here: The directory.
    """
    if root == here:
        return command
    words = _split(command)
    positions = _path_positions(words)
    moved = [_relative(root, here, word) if at in positions else word for at, word in enumerate(words)]
    comment = _parts(command)[1]
    return shlex.join(moved) + (f" # {comment}" if comment else "")


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """Suggested `esper` command in parts.

    Attributes:
        name: Name of the command, such as `torch compare`.
        arguments: Its arguments, in order.
        options: Values of each option in order; empty for one that takes none.
        comment: Trailing comment; empty if there is none.
    """

    name: str
    arguments: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    comment: str


def parse_command(command: str) -> ParsedCommand | None:
    """Return the parts of a suggested command; None if it is of another program or does not parse."""
    if not command or problem_of(command):
        return None
    words = _split(command)
    if words[0] != "esper":
        return None
    name = _name(words)
    parsed = _parsed(name, command_table()[name], words)
    options: dict[str, tuple[str, ...]] = {}
    taken = {*parsed.arguments, *(at for _, at in parsed.values)}
    for option, at in parsed.values:
        options[option] = (*options.get(option, ()), words[at])
    for at in range(1 + len(name.split()), len(words)):
        option, has_value, value = words[at].partition("=")
        if at not in taken and words[at] != "--" and option not in options:
            options[option] = (value,) if has_value else ()
    return ParsedCommand(name, tuple(words[at] for at in parsed.arguments), options, _parts(command)[1])


def _relative(root: Path, here: Path, word: str) -> str:
    path, colon, name = word.partition(":")
    target = root / path
    shown = target.relative_to(here).as_posix() if target.is_relative_to(here) else str(target)
    return f"{shown}{colon}{name}"


def _exists(root: Path, word: str) -> bool:
    return (root / word).exists() or (root / word.partition(":")[0]).exists()


@dataclass(frozen=True, slots=True)
class _ParsedWords:
    """Words of a command after its name.

    Attributes:
        arguments: Positions of its arguments.
        values: Position of the value of each option.
        problem: Why it would not parse; empty if it would.
    """

    arguments: tuple[int, ...] = ()
    values: tuple[tuple[str, int], ...] = ()
    problem: str = ""


def _parsed(name: str, shape: CommandShape, words: list[str]) -> _ParsedWords:
    arguments, values = list[int](), list[tuple[str, int]]()
    at = 1 + len(name.split())
    while at < len(words):
        word = words[at]
        option, has_value, value = word.partition("=")
        if word == "--":
            arguments += range(at + 1, len(words))
            break
        if not word.startswith("-") or word == "-":
            arguments.append(at)
        elif option not in shape.options:
            return _ParsedWords(problem=f"`esper {name}` has no option {option}")
        elif shape.options[option] and not has_value:
            at += 1
            if at == len(words):
                return _ParsedWords(problem=f"{option} needs a value")
            value = words[at]
            values.append((option, at))
        if option in shape.choices and value not in shape.choices[option]:
            return _ParsedWords(problem=f"{option} has no choice {value!r}")
        at += 1
    if len(arguments) < shape.least:
        return _ParsedWords(problem=f"`esper {name}` needs {shape.least} arguments")
    if shape.most is not None and len(arguments) > shape.most:
        return _ParsedWords(problem=f"`esper {name}` takes {shape.most} arguments")
    return _ParsedWords(tuple(arguments), tuple(values))


def _split(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def _name(words: list[str]) -> str:
    return next((each for count in (2, 1) if (each := " ".join(words[1 : 1 + count])) in command_table()), "")


def _path_positions(words: list[str]) -> frozenset[int]:
    """Return the positions of files, folders and targets; the request of `submit` and placeholders are none."""
    name = _name(words)
    if name not in _TAKES_PATHS and not name.startswith("torch "):
        return frozenset()
    parsed = _parsed(name, command_table()[name], words)
    is_rerun = any(option in {"--rerun", "--from-action"} for option, _ in parsed.values)
    paths = parsed.arguments[name == "submit" and not is_rerun :]
    sources = tuple(at for option, at in parsed.values if option in _PATH_OPTIONS)
    return frozenset(at for at in (*paths, *sources) if not _PLACEHOLDER.search(words[at]))


def _parts(command: str) -> tuple[str, str]:
    """Return a command without its trailing comment, and the comment; a ` # ` within quotes begins none."""
    at = command.find(" # ")
    while at >= 0:
        try:
            shlex.split(command[:at])
        except ValueError:
            at = command.find(" # ", at + 1)
        else:
            return command[:at], command[at + 3 :]
    return command, ""
