"""Call sites of operations: the user's line and module; backward operations use their forward site."""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .. import FOLDER
from ..results import UserFrame
from .result import ModuleLocation, OperationSite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

# Maximum number of autograd nodes whose forward line is recorded; the oldest are dropped first.
_MOST_NODES = 1 << 20
_MOST_FRAMES = 12
_MOST_SOURCE = 200
_Site = TypeVar("_Site", bound=OperationSite)
_OPTIMIZERS = str(Path(torch.optim.__file__).parent) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep


class Site(NamedTuple):
    """Call site of an operation.

    Attributes:
        code: User's code object; None without a user frame on the stack.
        line: Line in its file.
        instruction: Offset of the instruction, which determines the columns.
        module: Innermost active module.
        operation: Name of the operation, such as `aten.sqrt.default`.
    """

    code: CodeType | None
    line: int
    instruction: int
    module: ModuleLocation | None
    operation: str


class SiteVisit(NamedTuple):
    """Visit of a call site during a step.

    Attributes:
        site: The call site; for a backward operation, the forward site if it is known.
        phase: `forward`, `backward` or `optimizer`.
        node: Autograd node that was running backward, such as `SqrtBackward0`.
        started: Start of the backward pass, if the operation was not called from user lines.
        variable: Leaf to which a gradient was being added.
    """

    site: Site
    phase: str
    node: str | None = None
    started: Site | None = None
    variable: Any = None


class Modules:
    """Tracker of the active module, by hooks on all modules, and of the outermost modules called."""

    def __init__(self, known: torch.nn.Module | None) -> None:
        """Create a tracker with the target's own module, if it has one."""
        self._paths: weakref.WeakKeyDictionary[torch.nn.Module, ModuleLocation] = weakref.WeakKeyDictionary()
        self._running: list[ModuleLocation] = []
        self._roots: list[weakref.ref[torch.nn.Module]] = []
        if known is not None:
            self._learn(known)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Track calls of modules inside the block."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    @property
    def current(self) -> ModuleLocation | None:
        """The innermost active module."""
        return self._running[-1] if self._running else None

    def roots(self) -> list[torch.nn.Module]:
        """Return the outermost modules that were called and are still alive."""
        return [module for root in self._roots if (module := root()) is not None]

    def _learn(self, root: torch.nn.Module) -> None:
        self._roots.append(weakref.ref(root))
        for path, module in root.named_modules():
            self._paths[module] = ModuleLocation(type(root).__name__, path, type(module).__name__)

    def _enter(self, module: torch.nn.Module, _args: Any) -> None:
        if module not in self._paths:
            self._learn(module)
        self._running.append(self._paths[module])

    def _leave(self, _module: torch.nn.Module, _args: Any, _output: Any) -> None:
        if self._running:
            self._running.pop()


class Sites:
    """Finder of call sites; records for each autograd node the line that made it."""

    def __init__(self, in_project: Callable[[str], str | None], modules: Modules) -> None:
        """Create a finder with a function that recognizes user files."""
        self._in_project = in_project
        self._modules = modules
        self._files: dict[str, str | None] = {}
        self._nodes: dict[int, Site] = {}
        autograd: Any = torch.autograd
        self._next_node: Callable[[], int] = autograd._get_sequence_nr  # noqa: SLF001 - the only counter of nodes
        self._sequence = self._next_node()

    def note(self, operation: str) -> None:
        """Record the line of the nodes that autograd made since the last call. Called once for each operation."""
        sequence = self._next_node()
        if sequence == self._sequence:
            return
        site = self.find(operation).site
        for number in range(self._sequence, sequence):
            self._nodes[number] = site
        self._sequence = sequence
        if len(self._nodes) > _MOST_NODES:
            for number in list(itertools.islice(self._nodes, _MOST_NODES // 2)):
                del self._nodes[number]

    def find(self, operation: str) -> SiteVisit:
        """Return the visit of the operation being dispatched."""
        frame, phase = self._users(sys._getframe(1))  # noqa: SLF001 - the interpreter's own access to the stack
        called = self._site(frame, operation)
        node = torch._C._current_autograd_node()  # noqa: SLF001 - no public name
        if node is None:
            return SiteVisit(called, phase)
        if phase == "forward" and frame is not None:
            # User's Python code inside the backward pass: its own line is more specific.
            return SiteVisit(called, "backward", node.name())
        forward = self._nodes.get(node._sequence_nr())  # noqa: SLF001 - no public name
        variable = getattr(node, "variable", None)
        return SiteVisit(forward or called, "backward", _plain(node.name()), called if called.code else None, variable)

    def _users(self, frame: FrameType | None) -> tuple[FrameType | None, str]:
        """Return the innermost user frame and the layer between: the engine, an optimizer or none."""
        phase = "forward"
        while frame is not None:
            name = frame.f_code.co_filename
            if name not in self._files:
                self._files[name] = self._in_project(name)
            if self._files[name] is not None:
                return frame, "optimizer" if phase == "forward" and _is_in_optimizer(frame) else phase
            if phase == "forward":
                if frame.f_code.co_name == "_engine_run_backward":
                    phase = "backward"
                elif name.startswith(_OPTIMIZERS):
                    phase = "optimizer"
            frame = frame.f_back
        return None, phase

    def _site(self, frame: FrameType | None, operation: str) -> Site:
        if frame is None:
            return Site(None, 0, -1, self._modules.current, operation)
        return Site(frame.f_code, frame.f_lineno, frame.f_lasti, self._modules.current, operation)

    def stack(self) -> tuple[UserFrame, ...]:
        """Return the visible user frames, outermost first."""
        frames: list[UserFrame] = []
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - see above
        while frame is not None and len(frames) < _MOST_FRAMES:
            own = self._files.get(frame.f_code.co_filename)
            if own is not None:
                frames.append(UserFrame(own, frame.f_lineno, _name(frame.f_code)))
            frame = frame.f_back
        return tuple(frames[::-1])

    def described(self, site: Site, make: Callable[..., _Site], **more: Any) -> _Site:
        """Return a site as stored in results, as far as known.

        Args:
            site: The site.
            make: Class of the result.
            more: Further fields of that class.
        """
        if site.code is None:
            return make(module=site.module, **more)
        text = linecache.getline(site.code.co_filename, site.line)
        expression = _expression(site, text) if text.strip() else None
        return make(
            file=self._files.get(site.code.co_filename),
            line=site.line,
            function=_name(site.code),
            source=text.strip()[:_MOST_SOURCE] or None,
            expression=expression[:_MOST_SOURCE] if expression else None,
            module=site.module,
            **more,
        )


def _is_in_optimizer(frame: FrameType | None) -> bool:
    """Return whether an optimizer's step is running, outside of a closure that it called."""
    if torch.is_grad_enabled():
        return False
    while frame is not None and not frame.f_code.co_filename.startswith(_OPTIMIZERS):
        frame = frame.f_back
    return frame is not None


def outside_torch(frame: FrameType | None) -> str | None:
    """Return `module:line` of the innermost frame outside torch and our code."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH, FOLDER + os.sep, "<")):
            return f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _expression(site: Site, text: str) -> str | None:
    """Return the evaluated part of the line; requires Python 3.11."""
    positions = getattr(site.code, "co_positions", None)
    if positions is None or site.instruction < 0:
        return None
    at = next(itertools.islice(positions(), site.instruction // 2, None), None)
    if at is None or None in at or at[0] != at[1] or at[0] != site.line:
        return None
    # Columns are UTF-8 byte offsets.
    return text.encode()[at[2] : at[3]].decode(errors="replace").strip()


def _name(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))


def _plain(node: str) -> str:
    return node.rpartition("::")[2]
