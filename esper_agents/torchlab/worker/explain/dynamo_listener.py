"""Listen to Dynamo while it compiles: every graph break, recompilation and skipped frame.

Dynamo's log is the only complete account. `torch._dynamo.explain` counts graphs, so its count misses a break that no
graph follows, and a break that makes Dynamo skip a whole frame.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..target.stack_frames import StackFrame, frames_in
from .dynamo_log_parser import Break, Limit, Recompile, read_break, read_limit, read_recompile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Modules that the first compilation of a process imports; none of them starts a thread or a process.
_NEEDED = (
    "sympy.combinatorics",
    "sympy.tensor.tensor",
    "torch._dynamo",
    "torch._dynamo.backends.common",
    "torch._dynamo.backends.debugging",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.db.logging",
    "torch._functorch._activation_checkpointing.remat_using_tags_for_fwd_loss_bwd_graph_pass",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._functorch.aot_autograd",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.compile_fx",
    "torch._inductor.compiler_bisector",
    "torch._inductor.debug",
    "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental",
    "torch.export._draft_export",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "torch.nn.attention.flex_attention",
)

_ARTIFACTS = ("graph_breaks", "recompiles")
_IN_BACKEND = "WON'T CONVERT"
_BACKEND_FAILED = "GB0219"


@dataclass
class DynamoEvents:
    """Dynamo's log events, in order."""

    breaks: list[Break] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


class _Listener(logging.Handler):
    def __init__(self, heard: DynamoEvents) -> None:
        super().__init__(logging.DEBUG)
        self._heard = heard
        self._stacks: dict[tuple[str, StackFrame], list[StackFrame]] = {}
        self._in_backend: list[StackFrame] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else sys.exc_info()[1]
        if text.startswith(_IN_BACKEND):
            # This is the stack inside the backend; the resulting break has only the outer one.
            self._in_backend = frames_in(text)
        elif record.name.endswith("__graph_breaks"):
            found = read_break(text, error)
            if found is not None:
                self._heard.breaks.append(self._with_stack(found))
        elif record.name.endswith("__recompiles"):
            again = read_recompile(text)
            if again is not None:
                self._heard.recompiles.append(again)
        else:
            limit = read_limit(text)
            if limit is not None:
                self._heard.limits.append(limit)

    def _with_stack(self, found: Break) -> Break:
        """Return a break with the stack of the first of its kind at that line: Dynamo prints a stack only once."""
        if found.reason.page == _BACKEND_FAILED:
            return Break(found.reason, found.frames + self._in_backend, found.effect, found.skipped)
        if not found.frames:
            return found
        last = found.frames[-1]
        key = (found.reason.kind, StackFrame(last.filename, last.line, ""))
        if last.function:
            self._stacks[key] = found.frames
            return found
        return Break(found.reason, self._stacks.get(key, found.frames), found.effect, found.skipped)


def warm() -> None:
    """Import the modules for compiling, so that later forks have them; runs no torch operation."""
    for name in _NEEDED:
        with suppress(ImportError):  # other versions of torch have other modules
            importlib.import_module(name)
    with suppress(AttributeError):  # same reason
        _module("torch._dynamo").list_backends()
        torch.overrides.get_overridable_functions()
        _module("torch._dynamo.trace_rules").get_torch_obj_rule_map()
    # Dynamo looks up the module of each frame, and the first lookup walks every loaded module.
    inspect.getmodule(warm.__code__)
    _enable_logs()


def reset() -> None:
    """Discard all compiled code, and Dynamo's record of logged breaks."""
    _module("torch._dynamo").reset()
    utils = _module("torch._dynamo.utils")
    utils.counters.clear()
    forget: Callable[[], None] = getattr(utils, "reset_graph_break_dup_checker", lambda: None)
    forget()


def _module(name: str) -> Any:
    """Return a private module of torch that has no public equivalent."""
    return importlib.import_module(name)


def _enable_logs() -> None:
    logs = _module("torch._logging._internal")
    if not all(logs.log_state.is_artifact_enabled(artifact) for artifact in _ARTIFACTS):
        logs.set_logs(graph_breaks=True, recompiles=True)


@contextmanager
def listen() -> Iterator[DynamoEvents]:
    """Capture Dynamo's log while the block runs; nothing is printed."""
    guards = _module("torch._dynamo.guards")

    heard = DynamoEvents()
    listener = _Listener(heard)
    _enable_logs()
    torches = [each for name, each in logging.root.manager.loggerDict.items() if name.split(".")[0] == "torch"]
    loggers = [each for each in torches if isinstance(each, logging.Logger) and each.handlers]
    kept = [(logger, logger.handlers) for logger in loggers]
    for each in loggers:
        # Structured traces render every graph if a handler is attached; none is needed here.
        each.handlers = [] if each.name == "torch.__trace" else [listener]
    timed = getattr(guards, "profile_guard_manager", None)
    # Dynamo flushes caches to time its guards, which takes 23 ms for each function and is not reported.
    guards.profile_guard_manager = lambda *_: 0.0
    try:
        yield heard
    finally:
        guards.profile_guard_manager = timed
        for each, handlers in kept:
            each.handlers = handlers
