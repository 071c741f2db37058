"""Find lines of user code where the host would wait for an accelerator; on a CPU there are no waits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from .result import HostWait

if TYPE_CHECKING:
    from types import FrameType

    from ..target.input_spec import Inputs
    from .call_runner import Runner


class HostSyncRecorder(TorchFunctionMode):
    """Mode that records each user line where the host would wait for an accelerator.

    Attributes:
        places: Counts by called function, file and line.
    """

    _NAMES = frozenset(
        (
            "item",
            "tolist",
            "cpu",
            "numpy",
            "nonzero",
            "masked_select",
            "unique",
            "__bool__",
            "__float__",
            "__int__",
            "__index__",
            "is_nonzero",
            "equal",
        )
    )

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self.places: dict[tuple[str, str, int], int] = {}
        self._target = runner.target

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch function, and record it if it waits."""
        del types
        name = getattr(func, "__name__", "")
        if (
            name in self._NAMES
            or (name in {"__getitem__", "__setitem__"} and _is_masked(args))
            or _to_host(name, args, kwargs)
        ):
            at = self._place(sys._getframe(1))  # noqa: SLF001 - this walks frames on purpose
            if at is not None:
                key = (name, *at)
                self.places[key] = self.places.get(key, 0) + 1
        return func(*args, **(kwargs or {}))

    def _place(self, frame: FrameType | None) -> tuple[str, int] | None:
        while frame is not None:
            file = self._target.in_project(frame.f_code.co_filename)
            if file is not None:
                return file, frame.f_lineno
            frame = frame.f_back
        return None


def _is_masked(args: Any) -> bool:
    keys = args[1] if len(args) > 1 else ()
    keys = keys if isinstance(keys, tuple) else (keys,)
    return any(isinstance(key, torch.Tensor) and key.dtype in {torch.bool, torch.uint8} for key in keys)


def _to_host(name: str, args: Any, kwargs: Any) -> bool:
    return name == "to" and any(
        str(each) == "cpu" for each in (*args[1:], *(kwargs or {}).values()) if not isinstance(each, torch.Tensor)
    )


def waits(runner: Runner, inputs: Inputs) -> list[HostWait]:
    """Run one call and return the host syncs, most frequent first."""
    mode = HostSyncRecorder(runner)
    with mode:
        runner(inputs)
    rows = [HostWait(file, line, what, count) for (what, file, line), count in mode.places.items()]
    return sorted(rows, key=lambda row: (-row.count, row.file, row.line, row.what))
