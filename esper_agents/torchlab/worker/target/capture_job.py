"""Job: run a user's script or function and record the calls of the target."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from ..compare.tensor_bundle import write
from ..results import WrittenFile
from .captured_calls import CallRecorder, EnoughError
from .input_spec import TargetError
from .lookup import runnable
from .result import CapturedCalls
from .target import LoadedTarget

_FILE = "calls.espb"
_MOST_TEXT = 500


class SourceRecorder(Protocol):
    """Recorder of the calls of a target.

    Attributes:
        seen: Number of calls.
        most_calls: Number of calls after which it raises `EnoughError` in the calling code.
    """

    seen: int
    most_calls: int

    def __enter__(self) -> object:
        """Start watching."""

    def __exit__(self, *error: object) -> None:
        """Stop watching."""


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> CapturedCalls:
    """Record the first calls of a target.

    Args:
        target: The called target; for an nn.Module, the forward calls of any module of its class are recorded.
        request: `source`, as of `run_source`; `calls`: maximum number of calls; `scratch`.
        tell: Called once at the start.

    Raises:
        TargetError: The target was not called, or with arguments that cannot be recorded.
    """
    source = str(request["source"])
    tell(f"running {source} for the inputs", 0.0)
    watch = CallRecorder(target.module if target.module is not None else target.call, int(request["calls"]))
    ended = run_source(target.root, source, str(request["scratch"]), watch)
    if not watch.pieces:
        raise _nothing(target, source, watch, ended or "")
    _keep(watch, Path(request["scratch"], _FILE))
    return CapturedCalls(
        calls=len(watch.pieces),
        seen=watch.seen,
        nbytes=sum(piece.nbytes() for piece in watch.pieces.values()),
        stopped_early=ended is None,
        ended=ended or "",
        artifacts=(WrittenFile(_FILE, "application/octet-stream"),),
    )


def run_source(root: str, source: str, scratch: str, watch: SourceRecorder) -> str | None:
    """Run a script, a function or a test while its calls are recorded.

    Args:
        root: The project's folder, which is the working directory.
        source: `FILE.py` with arguments, `FILE.py:FUNCTION`, or `FILE.py::TEST`.
        scratch: Working directory afterwards.
        watch: SourceRecorder, entered for the run. If it recorded calls, an exception of the source only ends it.

    Returns:
        None if the recorder stopped it; otherwise the exception that ended it, or an empty text.

    Raises:
        TargetError: There is no such source.
        Exception: Any exception of the source before the first call.
    """
    go = _program(root, source)
    os.chdir(root)
    try:
        with _nothing_compiled(), watch:
            go()
    except EnoughError:
        return None
    except SystemExit as error:
        return f"SystemExit: {error.code}"[:_MOST_TEXT] if error.code else ""
    except Exception as error:
        if watch.seen >= watch.most_calls:
            return None
        if not watch.seen:
            raise
        return f"{type(error).__name__}: {error}"[:_MOST_TEXT]
    finally:
        os.chdir(scratch)
    return ""


def _nothing_compiled() -> AbstractContextManager[Any]:
    # Compiled code has no frames to watch. Importing Dynamo to disable it would take seconds.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    stance: Any = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance is not None and "torch._dynamo" in sys.modules else nullcontext()


def _program(root: str, source: str) -> Callable[[], Any]:
    words = [source] if Path(root, source).is_file() else shlex.split(source) or [source]
    if "::" in words[0]:
        return _test(root, words)
    if ":" in words[0]:
        return runnable(root, words[0])
    path = Path(root, words[0])
    if not path.is_file():
        raise TargetError(f"there is no file {source!r}", "name a script of the project, or FILE.py:FUNCTION")

    def go() -> None:
        sys.argv = [str(path), *words[1:]]
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")

    return go


def _test(root: str, words: list[str]) -> Callable[[], Any]:
    if not Path(root, words[0].partition("::")[0]).is_file():
        raise TargetError(f"there is no file {words[0].partition('::')[0]!r}", "name a test as FILE.py::TEST")
    try:
        import pytest
    except ModuleNotFoundError:
        raise TargetError(f"{sys.executable} has no pytest", "install it there, or name a script") from None

    def go() -> None:
        # The project is read-only, so that pytest can keep no cache.
        code = int(pytest.main([*words, "-x", "-q", "-p", "no:cacheprovider", f"--rootdir={root}"]))
        if code == 1:
            raise RuntimeError(f"pytest reports a failure of {words[0]}")
        if code:
            raise TargetError(f"pytest ran no test for {' '.join(words)!r}", f"check it with: pytest {words[0]}")

    return go


def _nothing(target: LoadedTarget, source: str, watch: CallRecorder, ended: str) -> TargetError:
    if watch.refused:
        problem = f"no call of {target.name!r} in {source!r} can be kept: {watch.refused}"
        return TargetError(
            problem, "name a function that takes tensors, numbers, texts and lists, tuples or dicts of them"
        )
    return uncalled(target.name, source, ended)


def uncalled(name: str, source: str, ended: str) -> TargetError:
    """Return the error for a source that did not call the target.

    Args:
        name: The target.
        source: The script, function or test.
        ended: Exception that ended it; empty if there was none.
    """
    problem = f"{source!r} did not call {name!r}{f'; it ended with {ended}' if ended else ''}"
    return TargetError(problem, "name a script, test or function that does")


def _keep(watch: CallRecorder, path: Path) -> None:
    with os.fdopen(write(watch.pieces, {}), "rb") as made, path.open("wb") as kept:
        shutil.copyfileobj(made, kept)
