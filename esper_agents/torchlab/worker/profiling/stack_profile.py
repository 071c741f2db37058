"""Run a target under torch's profiler with Python stacks: time by user function, and a trace file."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .profiler_events import CALL, Event, record, walk

if TYPE_CHECKING:
    from torch.autograd.profiler import profile

    from ..target.input_spec import Inputs
    from .call_runner import Runner

_MOST_TRACE_BYTES = 4 << 20


def stacks(runner: Runner, batch: list[Inputs], functions: list[dict[str, Any]], scratch: str) -> dict[str, Any]:
    """Run calls under torch's profiler with Python's stack, and write a trace file.

    Args:
        runner: Runs the calls.
        batch: Inputs of each call.
        functions: The user's functions, from cProfile.
        scratch: Folder for the trace.

    Returns:
        `total_ns` of a call; `functions`, for one call: `file`, `line`, `name`, `own_ns` (down to the next function of
        the user's), `total_ns`; and `artifact`, the trace for chrome://tracing or Perfetto.
    """
    recorded = record(runner, batch, with_stack=True, record_shapes=True)
    spent = _time_by_function(recorded.roots, functions)
    rows = [
        {**{name: functions[number][name] for name in ("file", "line", "name")}, "own_ns": own, "total_ns": total}
        for number, (own, total) in spent.items()
    ]
    for row in rows:
        row["own_ns"] //= len(batch)
        row["total_ns"] //= len(batch)
    rows.sort(key=lambda row: (-row["own_ns"], row["file"], row["line"]))
    total_ns = sum(each.duration_time_ns for each, _ in walk(recorded.roots) if each.name == CALL) // len(batch)
    return {"calls": len(batch), "total_ns": total_ns, "functions": rows, "artifact": _trace(recorded.profile, scratch)}


def _time_by_function(roots: list[Event], functions: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """Return own and total time of each of the user's functions, by its index in `functions`."""
    by_name: dict[str, list[int]] = {}
    for number, each in enumerate(functions):
        by_name.setdefault(each["name"].rpartition(".")[2], []).append(number)
    spent: dict[int, tuple[int, int]] = {}
    stack: list[tuple[Event, tuple[int, ...]]] = [(each, ()) for each in roots]
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
        stack += [(each, above) for each in event.children]
    return spent


def _known(event: Event, by_name: dict[str, list[int]], functions: list[dict[str, Any]]) -> int | None:
    site = getattr(event.extra_fields, "callsite", None)
    if site is None:
        return None
    # The frame's current line: below a decorator, or at the yield of a generator.
    found = [
        number
        for number in by_name.get(site.function_name, ())
        if functions[number]["line"] <= site.line_number and _same_end(site.file_name, functions[number]["file"])
    ]
    return max(found, key=lambda number: int(functions[number]["line"]), default=None)


def _same_end(one: str, other: str) -> bool:
    # Torch shortens paths by the import path.
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _trace(recorded: profile, scratch: str) -> dict[str, str]:
    path = Path(scratch, "trace.json")
    recorded.export_chrome_trace(os.fspath(path))
    if path.stat().st_size <= _MOST_TRACE_BYTES:
        return {"name": path.name, "media_type": "application/json"}
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 5))
    path.unlink()
    return {"name": packed.name, "media_type": "application/gzip"}
