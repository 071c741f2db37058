"""Job: count how often lines of the user's files run during a call, and locate raised exceptions."""

from __future__ import annotations

import inspect
import sys
import threading
import traceback
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..profile.call_runner import Runner
from ..results import UserFrame
from ..target.input_spec import TargetError
from ..target.own_files import own_file
from ..target.target import load
from .result import RaisedException, WatchedLine, WatchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from ..target.target import LoadedTarget

_MOST_TEXT = 500


def run(target: LoadedTarget | None, request: dict[str, Any], tell: Callable[[str, float], None]) -> WatchResult:
    """Call a target repeatedly and count executed lines.

    Args:
        target: The target; None to load it here, so that lines that making it runs count too.
        request: `root`; `lines`, the first and the last line of each span by file; `calls`, `train`, `seed`; `target`,
            the specification of a target that is not loaded.
        tell: Progress callback.
    """
    spans = {name: [(int(first), int(last)) for first, last in each] for name, each in request["lines"].items()}
    calls, raised = 0, None
    with _counted(request["root"], spans) as counts:
        loaded = load(request["root"], **request["target"]) if target is None else target
        runner = Runner(loaded, train=bool(request["train"]), seed=int(request["seed"]))
        for number in range(int(request["calls"])):
            tell(f"call {number + 1} of {request['calls']}", number / request["calls"])
            (inputs,) = runner.fresh()
            calls += 1
            try:
                runner(inputs)
            except TargetError:
                raise
            except Exception as error:  # noqa: BLE001 - the exception is the result
                raised = _described(request["root"], error)
                break
    lines = tuple(
        WatchedLine(file=name, line=first, end_line=last, times=max(counts[name, at] for at in range(first, last + 1)))
        for name, each in sorted(spans.items())
        for first, last in sorted(each)
    )
    return WatchResult(calls=calls, lines=lines, raised=raised)


@contextmanager
def _counted(root: str, spans: dict[str, list[tuple[int, int]]]) -> Iterator[Counter[tuple[str, int]]]:
    """Count the executed lines by file and line; only functions of the requested files are traced."""
    counts: Counter[tuple[str, int]] = Counter()
    files: dict[CodeType, str] = {}

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if code not in files:
            # The bodies of modules and classes run at import, which shows nothing.
            own = own_file(root, code.co_filename) if code.co_flags & inspect.CO_OPTIMIZED else None
            files[code] = own if own in spans else ""
        return line if files[code] else None

    def line(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            counts[files[frame.f_code], frame.f_lineno] += 1
        return line

    before = sys.gettrace()
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        yield counts
    finally:
        sys.settrace(before)
        threading.settrace(before)


def _described(root: str, error: Exception) -> RaisedException:
    frames = [
        UserFrame(own, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if (own := own_file(root, frame.filename)) is not None
    ]
    return RaisedException(type(error).__name__, str(error)[:_MOST_TEXT], tuple(frames[-20:]))
