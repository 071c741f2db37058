"""Prefixes of log lines: timestamps, ranks, processes, containers, quotation marks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_SIDE = 2_000_000
_LONGEST_LINE = 4_000

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TIME = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\s?[+-]\d\d:?\d\d)?"
_RANK = re.compile(
    r"""\[default(?P<default>\d+)\]:|\[(?P<local>\d+)\]:|\[\d+,(?P<mpi>\d+)\]<std\w+>:
    |(?:\[rank(?P<rank>\d+)\]:?(?:\[[^\]]*\])?
    |\((?P<actor>[\w.:<>\- ]{0,60}pid=\d+[^)]{0,60})\)|(?P<task>\d{1,4}):)(?:\ |$)""",
    re.VERBOSE,
)
_STAMP = re.compile(
    rf"""(?:\[{_TIME}\]|{_TIME}|\[\d\d:\d\d:\d\d\]|\d\d:\d\d:\d\d(?:[.,]\d+)?
    |[EWI]\d{{4}}\ \d\d:\d\d:\d\d\.\d+\ .{{1,80}}?\])
    (?:\ ?(?:-\ )?(?:\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|stderr|stdout)\]?(?:\ [FP])?)(?:\ ?[-:|])?)?
    (?:\ |$)""",
    re.VERBOSE,
)
_LEVEL = re.compile(
    r"(?:\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?(?::[\w.]+)?[:\]|-]\s?)(?=\s*(?:Traceback|File \"))"
)
_CONTAINER = re.compile(r"[A-Za-z][\w.-]{0,60}\s{0,12}\| ")
_QUOTE = re.compile(r"(?:> ?)+")
_IS_QUOTED = re.compile(r"^ {0,8}>[> ]{0,20}(?:Traceback \(most|.{0,40}File \"|[\w.]{1,60}Error)", re.MULTILINE)
_IS_TASK = re.compile(r"^\d{1,4}: +(?:Traceback \(most|File \")", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log without its prefix.

    Attributes:
        number: Index of the line in the text.
        prefix: Timestamp, rank and the like, as printed.
        origin: Process named by the prefix, such as `rank 1`; empty if there is none.
        text: The rest of the line.
    """

    number: int
    prefix: str
    origin: str
    text: str


def clean_lines(text: str) -> list[LogLine]:
    """Return the lines of a text without control characters and prefixes, and without the middle of a long text."""
    if len(text) > 2 * _LONGEST_SIDE:
        text = f"{text[:_LONGEST_SIDE]}\n{text[-_LONGEST_SIDE:]}"
    text = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " "))
    is_quoted, is_task = bool(_IS_QUOTED.search(text)), bool(_IS_TASK.search(text))
    return [
        _split(number, line[:_LONGEST_LINE].expandtabs(4), is_quoted=is_quoted, is_task=is_task)
        for number, line in enumerate(text.split("\n"))
    ]


def streams(lines: list[LogLine]) -> Iterator[tuple[str, list[LogLine]]]:
    """Yield the lines of each process; lines of several processes may be mixed in a log."""
    by_origin: dict[str, list[LogLine]] = {}
    for line in lines:
        by_origin.setdefault(line.origin, []).append(line)
    yield from by_origin.items()


def _split(number: int, line: str, *, is_quoted: bool, is_task: bool) -> LogLine:
    at, origin = 0, ""
    if is_quoted and (quote := _QUOTE.match(line.lstrip())):
        at = len(line) - len(line.lstrip()) + quote.end()
    start = at
    for _ in range(4):
        if rank := _RANK.match(line, at):
            if rank["task"] and not is_task:
                break
            origin = _origin(rank) or origin
            at = rank.end()
        elif match := _STAMP.match(line, at) or _LEVEL.match(line, at) or _CONTAINER.match(line, at):
            at = match.end()
        else:
            break
    return LogLine(number, line[start:at], origin, line[at:])


def _origin(match: re.Match[str]) -> str:
    if actor := match["actor"]:
        return actor
    number = next((match[name] for name in ("rank", "default", "local", "mpi", "task") if match[name]), "")
    return f"rank {number}" if number else ""
