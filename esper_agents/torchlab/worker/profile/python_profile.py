"""Profile a target from Python's side, with a tracer independent of torch."""

from __future__ import annotations

import cProfile
import inspect
import re
from types import CodeType
from typing import TYPE_CHECKING, Any

from .result import PythonFunction, PythonProfile, PythonWait

if TYPE_CHECKING:
    from ..target.input_spec import Inputs
    from .call_runner import Runner

_MOST_FUNCTIONS = 60
_LOADS = frozenset(("__getitem__", "__getitems__", "__next__", "__iter__", "collate", "collate_fn"))
# Functions in which the interpreter gives up the processor: for external events, or for another thread.
_WAITS = {
    "input": re.compile(
        r"\b(sleep|read|readinto|readline|readlines|recv|recv_into|poll|select|epoll|open|pread|urlopen)\b"
    ),
    "synchronisation": re.compile(r"\b(acquire|join|wait|waitpid|lock)\b"),
}


def python_functions(runner: Runner, batch: list[Inputs]) -> PythonProfile:
    """Run calls under cProfile, a tracer independent of torch."""
    watcher = cProfile.Profile()
    watcher.enable()
    for inputs in batch:
        runner(inputs)
    watcher.disable()
    entries = watcher.getstats()
    calls = len(batch)
    functions, loading = [], [0]
    waits = dict.fromkeys(_WAITS, 0)
    for entry in entries:
        if isinstance(entry.code, CodeType):
            file = runner.target.in_project(entry.code.co_filename)
            if file is not None:
                function = _function(entry, file, calls)
                functions.append(function)
                if function.loads:
                    loading.append(function.total_ns)
        else:
            kind = next((name for name, pattern in _WAITS.items() if pattern.search(entry.code)), None)
            if kind is not None:
                waits[kind] += _ns(entry.totaltime, calls)
    functions.sort(key=lambda each: (-each.total_ns, each.file, each.line))
    return PythonProfile(
        calls,
        sum(_ns(each.inlinetime, calls) for each in entries),
        sum(each.callcount for each in entries) // calls,
        max(loading),
        tuple(PythonWait(kind, spent) for kind, spent in waits.items()),
        tuple(functions[:_MOST_FUNCTIONS]),
    )


def _function(entry: Any, file: str, calls: int) -> PythonFunction:
    return PythonFunction(
        file,
        entry.code.co_firstlineno,
        getattr(entry.code, "co_qualname", entry.code.co_name),
        _per_call(entry.callcount, calls),
        _is_loading(entry.code),
        _ns(entry.inlinetime, calls),
        _ns(entry.totaltime, calls),
    )


def _per_call(count: int, calls: int) -> Any:
    return count // calls if count % calls == 0 else float(f"{count / calls:.6g}")


def _ns(seconds: float, calls: int) -> int:
    return round(seconds * 1e9 / calls)


def _is_loading(code: CodeType) -> bool:
    is_generator = bool(code.co_flags & inspect.CO_GENERATOR) and not code.co_name.startswith("<")
    return is_generator or code.co_name in _LOADS
