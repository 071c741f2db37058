"""Parse the logs of any Dynamo version: graph breaks, recompilations, skipped functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..target.stack_frames import StackFrame, frame, frames_in

_AT = re.compile(r"in user code at (.+):(\d+)$", re.MULTILINE)
_REASON = re.compile(r"^(?:Graph Break )?Reason: (.*?)(?=^\s*User code traceback:|\Z)", re.MULTILINE | re.DOTALL)
_SKIPPED = re.compile(r"skip tracing the frame (\S+) \((.+) line (\d+)\)")
_ANOTHER = re.compile(r"\n+\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n+")
_PREFIX = re.compile(r"\A(?:Encountered|Failed to handle) graph break.*?:\n\n", re.DOTALL)
_PAGE = re.compile(r"https?://\S+/gb/gb(\d+)\.html")
_SECTION = re.compile(r"^ {2}(Explanation|Hint|Developer debug context): ", re.MULTILINE)
_TAIL = re.compile(r"\n\s*For more details about this graph break.*|\nfrom user code:.*|\nSet TORCH.*", re.DOTALL)
_RECOMPILED = re.compile(r"Recompiling function (\S+) in (.+):(\d+)")
_ENTRY = re.compile(r"^\[?!?(?:\d+/)?\d+/\d+(?:_\d+)?\]?: ", re.MULTILINE)
_LIMIT = re.compile(r"hit config\.(\w+) \((\d+)\)\s+function: '([^']*)' \((.+):(\d+)\)")
_MOST_TEXT = 2_000


@dataclass(frozen=True)
class Reason:
    """Reason of a graph break.

    Attributes:
        kind: Dynamo's general name for it.
        page: Number of its documentation page, such as `GB0059`; None if torch has none.
        link: Address of the page.
        explanation: Dynamo's explanation of this case.
        hints: Dynamo's hints.
        context: Dynamo's debug context.
        after: Second problem while Dynamo handled this one, such as `graph break in loop`.
    """

    kind: str
    page: str | None
    link: str | None
    explanation: str
    hints: tuple[str, ...]
    context: str
    after: str | None


@dataclass(frozen=True)
class Break:
    """One logged graph break.

    Attributes:
        reason: Reason of the break.
        frames: The stack, outermost first.
        effect: `splits` (another graph follows), `ends` (the rest of the function runs eagerly) or `skips` (the
            whole function runs eagerly).
        skipped: Function that is not compiled; empty without one.
    """

    reason: Reason
    frames: list[StackFrame]
    effect: str
    skipped: StackFrame | None

    @property
    def key(self) -> tuple[str, StackFrame | None]:
        """Key that is equal for breaks with the same cause."""
        return self.reason.kind, self.frames[-1] if self.frames else None


@dataclass(frozen=True)
class Recompile:
    """One logged recompilation.

    Attributes:
        function: Recompiled function.
        guards: Failed guard of each existing version, newest first, with its stack.
    """

    function: StackFrame
    guards: list[tuple[str, list[StackFrame]]]


@dataclass(frozen=True)
class Limit:
    """Function that Dynamo no longer compiles.

    Attributes:
        setting: Configuration name of the limit.
        limit: Value of the limit.
        function: The function, which is not recompiled from now on.
    """

    setting: str
    limit: int
    function: StackFrame


def read_reason(text: str) -> Reason:
    """Return the reason of a break from the message of an exception or a log line, for any version of torch."""
    first, *others = _ANOTHER.split(text.strip())
    body = _PREFIX.sub("", first)
    page = _PAGE.search(body)
    sections = _SECTION.split(_TAIL.sub("", body))
    kind = sections[0].strip().splitlines()[0].strip() if sections[0].strip() else "unknown"
    named = list(zip(sections[1::2], (_flat(section) for section in sections[2::2]), strict=True))
    after = _PREFIX.sub("", others[-1]).strip().splitlines()[0] if others else None
    return Reason(
        kind=kind[:_MOST_TEXT],
        page=f"GB{page[1]}" if page else None,
        link=page[0] if page else None,
        explanation=next((each for name, each in named if name == "Explanation"), ""),
        hints=tuple(each for name, each in named if name == "Hint" and each),
        context=next((each for name, each in named if name == "Developer debug context"), ""),
        after=after,
    )


def _flat(text: str) -> str:
    return " ".join(text.split())[:_MOST_TEXT]


def read_break(text: str, error: BaseException | None) -> Break | None:
    """Return a break from one line of the `graph_breaks` log; None for other lines.

    Args:
        text: The log message.
        error: Exception that Dynamo was handling.
    """
    at, skipped = _AT.search(text), _SKIPPED.search(text)
    why = _REASON.search(text)
    message = why[1] if why else str(getattr(error, "msg", error or ""))
    if not message.strip() or (at is None and error is None):
        return None
    frames = frames_in(text.rpartition("User code traceback:")[2] if why else text)
    if not frames and at is not None:
        frames = [frame(at[1], int(at[2]), "")]
    if not frames and error is not None:
        frames = [
            frame(each.filename, each.lineno or 1, each.name) for each in getattr(error, "real_stack", None) or ()
        ]
    reason = read_reason(message)
    is_skip = skipped is not None or reason.after is not None or at is None or "Skipping the function" in message[:120]
    effect = "skips" if is_skip else "ends" if "cannot resume from" in message[:120] else "splits"
    function = frame(skipped[2], int(skipped[3]), skipped[1]) if skipped else None
    return Break(reason, frames, effect, function)


def read_recompile(text: str) -> Recompile | None:
    """Return a recompilation from one line of the `recompiles` log; None for other lines."""
    head = _RECOMPILED.search(text)
    if head is None:
        return None
    said = "\n".join(line.strip().removeprefix("- ") for line in text[head.end() :].splitlines()[2:])
    guards = []
    for entry in _ENTRY.split(said)[1:] or [said]:
        guard, _, stack = entry.partition("\nUser stack trace:")
        guards.append((guard.strip()[:_MOST_TEXT], frames_in(stack)))
    return Recompile(frame(head[2], int(head[3]), head[1]), guards)


def read_limit(text: str) -> Limit | None:
    """Return the function named in a recompile limit warning; None for other warnings."""
    found = _LIMIT.search(text)
    return None if found is None else Limit(found[1], int(found[2]), frame(found[4], int(found[5]), found[3]))
