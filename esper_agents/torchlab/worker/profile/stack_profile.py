"""Run a target under torch's profiler with Python stacks: time by user function, and a trace file."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..results import WrittenFile
from .profiler_events import CALL, Event, record, walk
from .result import StackFunction, StackProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.autograd.profiler import profile

    from ..target.input_spec import Inputs
    from .call_runner import Runner
    from .result import PythonFunction

_MOST_TRACE_BYTES = 4 << 20


def stacks(
    runner: Runner, batch: list[Inputs], functions: Sequence[PythonFunction], scratch: str
) -> tuple[StackProfile, WrittenFile]:
    """Run calls under torch's profiler with Python's stack, and write a trace file.

    Args:
        runner: Runs the calls.
        batch: Inputs of each call.
        functions: The user's functions, from cProfile.
        scratch: Folder for the trace.

    Returns:
        The functions, and the trace for chrome://tracing or Perfetto.
    """
    recorded = record(runner, batch, with_stack=True, record_shapes=True)
    spent = _time_by_function(recorded.roots, functions)
    rows = [
        StackFunction(known.file, known.line, known.name, own // len(batch), total // len(batch))
        for known, own, total in ((functions[number], *times) for number, times in spent.items())
    ]
    rows.sort(key=lambda each: (-each.own_ns, each.file, each.line))
    total_ns = sum(each.duration_time_ns for each, _ in walk(recorded.roots) if each.name == CALL) // len(batch)
    return StackProfile(len(batch), total_ns, tuple(rows)), _trace(recorded.profile, scratch)


def _time_by_function(roots: list[Event], functions: Sequence[PythonFunction]) -> dict[int, tuple[int, int]]:
    """Return own and total time of each of the user's functions, by its index in `functions`."""
    by_name: dict[str, list[int]] = {}
    for number, each in enumerate(functions):
        by_name.setdefault(each.name.rpartition(".")[2], []).append(number)
    spent: dict[int, tuple[int, int]] = {}
    stack: list[tuple[Event, tuple[int, ...]]] = [(root, ()) for root in roots]
    while stack:
        event, above = stack.pop()
        known = _known(event, by_name, functions)
        if known is not None:
            took = event.duration_time_ns
            own, total = spent.get(known, (0, 0))
            spent[known] = own + took, total + (0 if known in above else took)
            if above:
                own, total = spent[above[-1]]
                spent[above[-1]] = own - took, total
            above = (*above, known)
        stack += [(child, above) for child in event.children]
    return spent


def _known(event: Event, by_name: dict[str, list[int]], functions: Sequence[PythonFunction]) -> int | None:
    site = getattr(event.extra_fields, "callsite", None)
    if site is None:
        return None
    # The frame's current line: below a decorator, or at the yield of a generator.
    found = [
        number
        for number in by_name.get(site.function_name, ())
        if functions[number].line <= site.line_number and _same_end(site.file_name, functions[number].file)
    ]
    return max(found, key=lambda number: functions[number].line, default=None)


def _same_end(one: str, other: str) -> bool:
    # Torch shortens paths by the import path.
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _trace(recorded: profile, scratch: str) -> WrittenFile:
    path = Path(scratch, "trace.json")
    recorded.export_chrome_trace(os.fspath(path))
    if path.stat().st_size <= _MOST_TRACE_BYTES:
        return WrittenFile(path.name, "application/json")
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 5))
    path.unlink()
    return WrittenFile(packed.name, "application/gzip")
