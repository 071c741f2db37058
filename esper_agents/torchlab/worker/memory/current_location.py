"""Track the line and the module of user code that are executing."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from ..target.target import LoadedTarget

MARK = "esper-place|"


class CurrentLocation:
    """Tracker of the user's innermost line and module; a module's name is the root's class and the path from it."""

    def __init__(self, target: LoadedTarget) -> None:
        """Create a tracker for code of this target's project."""
        self._target = target
        self._own: dict[str, str | None] = {}
        self._stack: list[str] = []
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._forward: dict[int, tuple[str, str]] = {}

    @contextmanager
    def following(self) -> Iterator[None]:
        """Track the active module inside the block."""
        entered = register_module_forward_pre_hook(self._enter)
        left = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            entered.remove()
            left.remove()

    def here(self) -> tuple[str, str]:
        """Return `file:line` of the user's innermost frame, and the active module; empty without one."""
        return self.line(sys._getframe(1)), self._stack[-1] if self._stack else ""  # noqa: SLF001 - the only access to a frame

    def line(self, frame: FrameType | None) -> str:
        """Return `file:line` of the innermost user frame, starting at a frame."""
        while frame is not None:
            filename = frame.f_code.co_filename
            if filename not in self._own:
                self._own[filename] = self._target.in_project(filename)
            own = self._own[filename]
            if own is not None:
                return f"{own}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def remember(self, node: int, at: tuple[str, str]) -> None:
        """Record the location of the forward operation of an autograd node."""
        self._forward.setdefault(node, at)

    def of_node(self, node: int) -> tuple[str, str]:
        """Return the location of a node's forward operation."""
        return self._forward.get(node, ("", ""))

    def _enter(self, module: torch.nn.Module, _args: Any) -> None:
        if not self._stack or module not in self._names:
            root = type(module).__name__
            for name, each in module.named_modules():
                self._names[each] = f"{root}.{name}" if name else root
        self._stack.append(self._names.get(module, type(module).__name__))

    def _leave(self, _module: torch.nn.Module, _args: Any, _output: Any) -> None:
        if self._stack:
            self._stack.pop()


def is_compiled() -> bool:
    """Return whether the target is compiled: our hooks and modes would be traced with it, and change it."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None:
        return False
    for each in gc.get_objects():
        if type(each) is FunctionType:
            if "_torchdynamo_orig_callable" in each.__dict__ and not str(each.__module__).startswith("torch."):
                return True
        elif issubclass(type(each), dynamo.OptimizedModule):
            return True
    return False


class PlaceMarks(TorchFunctionMode):
    """Mode that marks a profile with the user's line and module.

    A mode for functions, not for dispatch: under the latter, autograd adds gradients out of place, and allocates more.
    """

    def __init__(self, whereabouts: CurrentLocation) -> None:
        """Create the mode with a tracker."""
        super().__init__()
        self._whereabouts = whereabouts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function inside a mark."""
        del types
        line, module = self._whereabouts.here()
        with torch._C._profiler._RecordFunctionFast(f"{MARK}{line}|{module}"):  # noqa: SLF001 - the public function allocates
            return func(*args, **(kwargs or {}))
