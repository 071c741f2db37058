"""Reports of Dynamo's graph breaks and recompilations, merged, with their counts and calls."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..target.source_place import SourcePlace
from ..target.stack_frames import StackFrame
from ..target.user_lines import completed, outside, path, place, plain
from .result import GraphBreak, Recompilation, RecompileLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..target.target import LoadedTarget
    from .dynamo_listener import DynamoEvents
    from .dynamo_log_parser import Break, Recompile

_COMMENT = re.compile(r"\s*# (?P<source>.*?)\s*# (?P<file>[^\s:]+):(?P<line>\d+) in (?P<function>\S+)")
_SYMBOLIC = re.compile(r"\s+# (?P<source>.+?)  # (?P<file>[^\s:]+):(?P<line>\d+) in (?P<function>\S+)")
_NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?\b")


def _call_of(calls: list[range], number: int) -> int:
    return next((call for call, numbers in enumerate(calls, 1) if number in numbers), max(len(calls), 1))


def breaks_told(target: LoadedTarget, breaks: list[Break], calls: list[range]) -> list[GraphBreak]:
    """Return the breaks without duplicates: one per kind and user line.

    Args:
        target: Target whose files count as the user's.
        breaks: Breaks in the order of the log.
        calls: For each call, the indices of its breaks; empty if they were logged while autograd was traced.

    Returns:
        Sorted by the first call that shows it, then by file and line; `count` is the number in that call.
    """
    told: dict[tuple[Any, ...], GraphBreak] = {}
    for number, each in enumerate(breaks):
        call = _call_of(calls, number)
        fresh = _break_told(target, each, call, under_autograd=not calls)
        key = (fresh.at, fresh.outside if fresh.place is None else None, fresh.kind)
        one = told.get(key, fresh)
        told[key] = replace(
            one,
            count=one.count + (one.first_call == call),
            calls=one.calls if call in one.calls else (*one.calls, call),
            effect=min(one.effect, each.effect, key=("skips", "ends", "splits").index),
            path=max(one.path, fresh.path, key=len),
        )
    return sorted(told.values(), key=lambda each: (each.first_call, *each.at, each.kind))


def _break_told(target: LoadedTarget, each: Break, call: int, *, under_autograd: bool) -> GraphBreak:
    reason, skipped = each.reason, each.skipped
    return GraphBreak(
        kind=reason.kind,
        explanation=plain(target, reason.explanation),
        hints=reason.hints,
        context=plain(target, reason.context),
        effect=each.effect,
        path=path(target, each.frames),
        count=0,
        first_call=call,
        calls=(),
        under_autograd=under_autograd,
        page=reason.page,
        link=reason.link,
        after=reason.after,
        place=place(target, each.frames),
        outside=outside(target, each.frames),
        skips=None if skipped is None else place(target, [skipped]) or SourcePlace(function=skipped.function),
    )


def recompiles_told(target: LoadedTarget, heard: DynamoEvents, calls: list[range]) -> list[Recompilation]:
    """Return the recompilations without duplicates: one per function and guard, ignoring numbers in the guard.

    Args:
        target: Target whose files count as the user's.
        heard: Recompilations from Dynamo's log.
        calls: For each call, the indices of its recompilations.

    Returns:
        In order of occurrence. `guard` is the one that failed in the version compiled last; `place` is the
        line that needs it if Dynamo knows it, otherwise the function's line.
    """
    told: dict[tuple[Any, ...], Recompilation] = {}
    known_files = _files(heard)
    for number, each in enumerate(heard.recompiles):
        guard, guard_at = _split(target, each, known_files)
        key = (each.function.filename, each.function.line, _NUMBER.sub("#", guard))
        call = _call_of(calls, number)
        one = told.get(key) or _recompilation(target, each, guard, guard_at)
        told[key] = replace(one, count=one.count + 1, calls=one.calls if call in one.calls else (*one.calls, call))
    return list(told.values())


def _recompilation(target: LoadedTarget, each: Recompile, guard: str, guard_at: SourcePlace | None) -> Recompilation:
    at = guard_at or place(target, [each.function])
    return Recompilation(
        function=each.function.function,
        guard=guard,
        count=0,
        calls=(),
        is_exact=guard_at is not None,
        place=at,
        outside=outside(target, [each.function]) if at is None else None,
    )


def _split(target: LoadedTarget, each: Recompile, files: Iterable[str]) -> tuple[str, SourcePlace | None]:
    """Return the failed guard without Dynamo's comment, and the line that the comment or its stack names."""
    if not each.guards:
        return "unknown", None
    text, stack = each.guards[0]
    comment = _COMMENT.search(text) or _SYMBOLIC.search(text)
    guard = plain(target, (text[: comment.start()] if comment else text).strip().splitlines()[0])
    at = place(target, stack)
    if at is None and comment:
        whole = completed(target, files, comment["file"])
        at = place(target, [StackFrame(whole, int(comment["line"]), comment["function"])]) if whole else None
    return guard, at


def _files(heard: DynamoEvents) -> set[str]:
    frames = [recompile.function for recompile in heard.recompiles] + [
        one for each in heard.breaks for one in each.frames
    ]
    return {frame.filename for frame in frames}


def limits_told(target: LoadedTarget, heard: DynamoEvents) -> tuple[RecompileLimit, ...]:
    """Return the functions that Dynamo no longer compiles: later calls run a matching version, or eagerly."""
    last = {limit.function: limit for limit in heard.limits}
    return tuple(
        RecompileLimit(
            function=each.function.function,
            setting=each.setting,
            limit=each.limit,
            place=place(target, [each.function]),
        )
        for each in last.values()
    )
