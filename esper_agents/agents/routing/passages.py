"""A request taken apart: prose, code, the exceptions of a traceback, and its frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

# The subject and the question of a long paste stand at its ends.
HEAD = 2_000
TAIL = 2_000

_FENCE = re.compile(r"\s*(?:```|~~~)")
_TRACE = re.compile(r"\s*Traceback \(most recent call last\)|\s*File \".+\", line \d+")
_CODE = re.compile(
    r"""\s*(?:import\ \w|from\ [\w.]+\ import\ |(?:async\ )?def\ \w+\(|class\ \w+[(:]|(?:for|if|while|with)\ .+:\s*$
    |else:|try:|return\b|@\w[\w.]*(?:\(.*\))?\s*$|[\w.\[\]]+(?:,\ ?[\w.\[\]]+)*\ ?[-+*/]?=\ ?\S|[\w.]+\(.*\)\s*$
    |\#\ *include|SELECT\ |FROM\ \S+\s*$)""",
    re.VERBOSE,
)
_PAIR = 2


class Kind(StrEnum):
    """What a stretch of a request is."""

    PROSE = "prose"
    CODE = "code"
    EXCEPTION = "exception"
    FRAME = "frame"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a request that is of one kind.

    Attributes:
        kind: What it is.
        text: As it stands in the request.
    """

    kind: Kind
    text: str


def bounded(text: str) -> str:
    """Return the text, or its first and last 2,000 characters where it is longer."""
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"


def passages(text: str) -> list[Passage]:
    """Take a text apart; what neighbours and is of one kind stays together.

    Code is what stands between fences, and two or more lines together that read as code. Of a traceback, the
    lines that name files are frames, the source below them is skipped, and the first line that is not indented is
    the exception.
    """
    if "\n" not in text:
        return [Passage(Kind.PROSE, text)]
    lines = text.split("\n")
    merged: list[Passage] = []
    for kind, line in zip(_kinds(lines), lines, strict=True):
        if kind is None:
            continue
        if merged and merged[-1].kind is kind:
            merged[-1] = Passage(kind, f"{merged[-1].text}\n{line}")
        else:
            merged.append(Passage(kind, line))
    return merged


def _kinds(lines: list[str]) -> list[Kind | None]:
    kinds: list[Kind | None] = []
    is_fenced = is_trace = False
    for line in lines:
        if _FENCE.match(line):
            is_fenced = not is_fenced
            kinds.append(None)
        elif _TRACE.match(line):
            is_trace = True
            kinds.append(Kind.FRAME)
        elif is_trace and (not line.strip() or line[0] in " \t"):
            kinds.append(None)
        elif is_trace:
            is_trace = False
            kinds.append(Kind.EXCEPTION)
        else:
            kinds.append(Kind.CODE if is_fenced else Kind.PROSE)
    return _unfenced_code(lines, kinds)


def _unfenced_code(lines: list[str], kinds: list[Kind | None]) -> list[Kind | None]:
    """Find runs of lines that read as code without a fence."""
    run: list[int] = []
    for index, line in enumerate([*lines, "end"]):
        is_prose = index < len(lines) and kinds[index] is Kind.PROSE
        if is_prose and (_CODE.match(line) or (run and (not line.strip() or line.startswith(("    ", "\t"))))):
            run.append(index)
            continue
        if sum(bool(lines[each].strip()) for each in run) >= _PAIR:
            for each in run:
                kinds[each] = Kind.CODE
        run = []
    return kinds
