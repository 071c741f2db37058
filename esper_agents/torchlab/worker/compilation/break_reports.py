"""Reports of Dynamo's graph breaks and recompilations, merged, with their counts and calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..target.stack_frames import StackFrame
from ..target.user_lines import completed, outside, path, place, plain

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


def breaks_told(target: LoadedTarget, breaks: list[Break], calls: list[range]) -> list[dict[str, Any]]:
    """Return the breaks without duplicates: one per kind and user line.

    Args:
        target: Target whose files count as the user's.
        breaks: Breaks in the order of the log.
        calls: For each call, the indices of its breaks; empty if they were logged while autograd was traced.

    Returns:
        Sorted by the first call that shows it, then by file and line; `count` is the number in that call.
    """
    told: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, each in enumerate(breaks):
        fresh = _break_told(target, each)
        at = fresh.get("place", {})
        call = _call_of(calls, number)
        key = (at.get("file"), at.get("line"), fresh.get("outside") if not at else None, each.reason.kind)
        one = told.setdefault(key, fresh | {"count": 0, "first_call": call, "calls": [], "under_autograd": not calls})
        one["count"] += one["first_call"] == call
        if call not in one["calls"]:
            one["calls"].append(call)
        one["effect"] = min(one["effect"], each.effect, key=("skips", "ends", "splits").index)
        one["path"] = max(one["path"], fresh["path"], key=len)
    return sorted(told.values(), key=_order)


def _order(told: dict[str, Any]) -> tuple[int, str, int, str]:
    at = told.get("place", {"file": "", "line": 0})
    return told["first_call"], at["file"], at["line"], told["kind"]


def _break_told(target: LoadedTarget, each: Break) -> dict[str, Any]:
    reason = each.reason
    told: dict[str, Any] = {
        "kind": reason.kind,
        "explanation": plain(target, reason.explanation),
        "hints": list(reason.hints),
        "context": plain(target, reason.context),
        "effect": each.effect,
        "path": path(target, each.frames),
    }
    optional: dict[str, Any] = {
        "page": reason.page,
        "link": reason.link,
        "after": reason.after,
        "place": place(target, each.frames),
        "outside": outside(target, each.frames),
    }
    if each.skipped is not None:
        optional["skips"] = place(target, [each.skipped]) or {"function": each.skipped.function}
    return told | {name: found for name, found in optional.items() if found is not None}


def recompiles_told(target: LoadedTarget, heard: DynamoEvents, calls: list[range]) -> list[dict[str, Any]]:
    """Return the recompilations without duplicates: one per function and guard, ignoring numbers in the guard.

    Args:
        target: Target whose files count as the user's.
        heard: Recompilations from Dynamo's log.
        calls: For each call, the indices of its recompilations.

    Returns:
        In order of occurrence. `guard` is the one that failed in the version compiled last; `place` is the
        line that needs it if Dynamo knows it, otherwise the function's line.
    """
    told: dict[tuple[Any, ...], dict[str, Any]] = {}
    known_files = _files(heard)
    for number, each in enumerate(heard.recompiles):
        guard, guard_at = _split(target, each, known_files)
        key = (each.function.filename, each.function.line, _NUMBER.sub("#", guard))
        call = _call_of(calls, number)
        said = {"function": each.function.function, "guard": guard, "count": 0, "calls": []}
        one = told.setdefault(key, said | _at(target, each, guard_at))
        one["count"] += 1
        if call not in one["calls"]:
            one["calls"].append(call)
    return list(told.values())


def _at(target: LoadedTarget, each: Recompile, guard_at: dict[str, object] | None) -> dict[str, Any]:
    at = guard_at or place(target, [each.function])
    if at is None:
        return {"outside": outside(target, [each.function]), "is_exact": False}
    return {"place": at, "is_exact": guard_at is not None}


def _split(target: LoadedTarget, each: Recompile, files: Iterable[str]) -> tuple[str, dict[str, object] | None]:
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
    frames = [each.function for each in heard.recompiles] + [one for each in heard.breaks for one in each.frames]
    return {each.filename for each in frames}


def limits_told(target: LoadedTarget, heard: DynamoEvents) -> list[dict[str, Any]]:
    """Return the functions that Dynamo no longer compiles: later calls run a matching version, or eagerly."""
    told: dict[StackFrame, dict[str, Any]] = {}
    for each in heard.limits:
        function = place(target, [each.function])
        at = {"place": function} if function is not None else {}
        told[each.function] = {"function": each.function.function, "setting": each.setting, "limit": each.limit} | at
    return list(told.values())
