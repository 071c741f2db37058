"""Run a target and attribute every operation to its user line, its module and its cost.

A dispatch mode sees each operation just before its kernel runs, while the Python stack still names the caller.
It marks the operation in the profile, and the profile gives the time of the kernel, without the mode's own time.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from time import thread_time_ns
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import FOLDER
from .operation_cost import described_by
from .profiler_events import phase_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ..target.target import LoadedTarget

MARK = "esper::"
_ENGINE = "_engine_run_backward"


@dataclass(frozen=True)
class UserLocation:
    """Location in the user's files.

    Attributes:
        file: File, relative to the project; None without a user frame.
        line: Line, from 1.
        function: Qualified name.
    """

    file: str | None = None
    line: int | None = None
    function: str | None = None


NOWHERE = UserLocation()


@dataclass(frozen=True)
class Operation:
    """One operation that ran.

    Attributes:
        name: Name, such as `aten::addmm`.
        phase: `forward`, `backward`, `optimizer` or `input`.
        place: Calling location; for the backward pass, the line whose gradient it computes.
        module: Path of the innermost module, such as `Net.layers.0`; empty outside of modules.
        shapes: Shapes of its tensors, such as `[32, 64] [64, 8]`.
        dtype: Dtype of its result; empty if it returned no tensor.
        flops: Floating-point operations; None if they are not counted.
        moved: Bytes of its operands and results, each counted once; 0 for a view; None if a tensor has no plain memory.
        faults: Number of memory pages touched for the first time.
        thread_ns: Processor time of the thread, from before the mark until after it.
        is_view: Whether it returns a view and moves nothing.
    """

    name: str
    phase: str
    place: UserLocation
    module: str
    shapes: str
    dtype: str
    flops: int | None
    moved: int | None
    faults: int
    thread_ns: int
    is_view: bool


class Attribution(TorchDispatchMode):
    """Mode that marks and records every operation while it is active.

    Attributes:
        operations: Operations that ran; the number in a mark is an index into them.
    """

    def __init__(self, target: LoadedTarget) -> None:
        """Create an empty record."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.operations: list[Operation] = []
        self._target = target
        self._files: dict[str, str | None] = {}
        self._modules = _Modules(target)
        self._forward: dict[int, tuple[UserLocation, str]] = {}
        self._phases = ["forward"]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record operations and the active module inside the block."""
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        entered = register_module_forward_pre_hook(self._modules.enter)
        left = register_module_forward_hook(self._modules.leave, always_call=True)
        try:
            with self:
                yield
        finally:
            entered.remove()
            left.remove()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation under its mark."""
        del types
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or func.namespace == "prim":  # noqa: SLF001 - no other name
            return func(*args, **kwargs)
        if func.namespace == "profiler":
            self._mark(func, args)
            return func(*args, **kwargs)
        if torch.is_inference_mode_enabled():
            # Composite operations arrive undivided here, and their parts have the costs.
            with self:
                given = func.decompose(*args, **kwargs)
            if given is not NotImplemented:
                return given
        phase, place, module = self._origin()
        before, begun = getrusage(RUSAGE_SELF).ru_minflt, thread_time_ns()
        with torch._C._profiler._RecordFunctionFast(f"{MARK}{len(self.operations)}"):  # noqa: SLF001 - the fast variant
            given = func(*args, **kwargs)
        thread_ns, faults = thread_time_ns() - begun, getrusage(RUSAGE_SELF).ru_minflt - before
        described = described_by(func, args, kwargs, given)
        self.operations.append(
            Operation(phase=phase, place=place, module=module, faults=faults, thread_ns=thread_ns, **described)
        )
        return given

    def _mark(self, func: Any, args: tuple[Any, ...]) -> None:
        """Track the marks that torch itself sets, such as around an optimizer's step."""
        if "enter" in func._schema.name:  # noqa: SLF001 - the name without the overload
            self._phases.append(phase_of(args[0]) or self._phases[-1])
        elif len(self._phases) > 1:
            self._phases.pop()

    def _origin(self) -> tuple[str, UserLocation, str]:
        node = torch._C._current_autograd_node()  # noqa: SLF001 - autograd has no other way to report the active node
        place = self._place()
        if node is None:
            module = self._modules.current
            # Key of this operation's gradient; a sequence number that no node received is never looked up.
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, (place, module))  # noqa: SLF001 - same reason
            return self._phases[-1], place, module
        forward_place, module = self._forward.get(node._sequence_nr(), (NOWHERE, ""))  # noqa: SLF001 - same reason
        return "backward", place if place is not NOWHERE else forward_place, module

    def _place(self) -> UserLocation:
        """Return the innermost user frame; of a backward pass, only frames inside of it."""
        frame: FrameType | None = sys._getframe(3)  # noqa: SLF001 - this walks frames on purpose
        while frame is not None:
            code = frame.f_code
            if code.co_name == _ENGINE:
                return NOWHERE
            file = self.own(code.co_filename)
            if file is not None:
                return UserLocation(file, frame.f_lineno, getattr(code, "co_qualname", code.co_name))
            frame = frame.f_back
        return NOWHERE

    def own(self, filename: str) -> str | None:
        """Return a file's path relative to the project if it is the user's."""
        if filename not in self._files:
            self._files[filename] = None if filename.startswith(FOLDER) else self._target.in_project(filename)
        return self._files[filename]


class _Modules:
    """Tracker of the path of the active module."""

    def __init__(self, target: LoadedTarget) -> None:
        self._paths: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()
        self._roots: dict[str, int] = {}
        self._stack: list[str] = []
        if target.module is not None:
            self._name(target.module)

    @property
    def current(self) -> str:
        return self._stack[-1] if self._stack else ""

    def enter(self, module: torch.nn.Module, _given: Any) -> None:
        if module not in self._paths:
            self._name(module)
        self._stack.append(self._paths[module])

    def leave(self, _module: torch.nn.Module, _given: Any, _returned: Any) -> None:
        if self._stack:
            self._stack.pop()

    def _name(self, root: torch.nn.Module) -> None:
        name = type(root).__name__
        self._roots[name] = self._roots.get(name, 0) + 1
        if self._roots[name] > 1:
            name = f"{name}#{self._roots[name]}"
        for path, module in root.named_modules():
            self._paths.setdefault(module, f"{name}.{path}" if path else name)
