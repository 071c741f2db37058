"""Job: run a user's script or function and record the calls of the target."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from ..compare.tensor_bundle import write
from ..target.captured_calls import CallRecorder, EnoughError
from ..target.input_spec import TargetError
from ..target.lookup import runnable
from ..target.target import LoadedTarget

_FILE = "calls.espb"


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Record the first calls of a target.

    Args:
        target: The called target; for an nn.Module, the forward calls of any module of its class are recorded.
        request: `source`: `FILE.py`, which is run as a script, or `FILE.py:FUNCTION`; `calls`: maximum number of calls.
        tell: Called once at the start.

    Returns:
        `calls`: number recorded; `seen`: number made; `nbytes` of tensors; `stopped_early`; and `ended`: the exception
        that ended the script, if any. The artifact `calls.espb` holds the calls.

    Raises:
        TargetError: The target was not called, or with arguments that cannot be recorded.
    """
    source = str(request["source"])
    tell(f"running {source} for the inputs", 0.0)
    ended, is_early = "", False
    watch = CallRecorder(target.module if target.module is not None else target.call, int(request["calls"]))
    go = _script(target.root, source) if ":" not in source else runnable(target.root, source)
    os.chdir(target.root)
    try:
        with _nothing_compiled(), watch:
            go()
    except EnoughError:
        is_early = True
    except SystemExit:
        pass
    except Exception as error:
        if not watch.pieces:
            raise
        ended = f"{type(error).__name__}: {error}"[:500]
    finally:
        os.chdir(request["scratch"])
    if not watch.pieces:
        raise _nothing(target, source, watch)
    _keep(watch, Path(request["scratch"], _FILE))
    return {
        "calls": len(watch.pieces),
        "seen": watch.seen,
        "nbytes": sum(each.nbytes() for each in watch.pieces.values()),
        "stopped_early": is_early,
        "ended": ended,
        "artifacts": [{"name": _FILE, "media_type": "application/octet-stream"}],
    }


def _nothing_compiled() -> AbstractContextManager[Any]:
    # Compiled code has no frames to watch. Importing Dynamo to disable it would take seconds.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    stance: Any = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance is not None and "torch._dynamo" in sys.modules else nullcontext()


def _script(root: str, source: str) -> Callable[[], Any]:
    path = Path(root, source)
    if not path.is_file():
        raise TargetError(f"there is no file {source!r}", "name a script of the project, or FILE.py:FUNCTION")

    def go() -> None:
        sys.argv = [str(path)]
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")

    return go


def _nothing(target: LoadedTarget, source: str, watch: CallRecorder) -> TargetError:
    if watch.refused:
        problem = f"no call of {target.name!r} in {source!r} can be kept: {watch.refused}"
        return TargetError(
            problem, "name a function that takes tensors, numbers, texts and lists, tuples or dicts of them"
        )
    return TargetError(f"{source!r} did not call {target.name!r}", "name a script or function that does")


def _keep(watch: CallRecorder, path: Path) -> None:
    with os.fdopen(write(watch.pieces, {}), "rb") as made, path.open("wb") as kept:
        shutil.copyfileobj(made, kept)
