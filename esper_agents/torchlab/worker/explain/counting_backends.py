"""Compiler backends that compile nothing and count the graphs they receive and their runs."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from ..target.stack_frames import frames_in
from ..target.user_lines import place
from .result import CompiledGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..target.target import LoadedTarget

_CALLS = frozenset({"call_function", "call_method", "call_module"})


@dataclass
class Graph:
    """One graph captured by Dynamo.

    Attributes:
        ops: Number of occurrences of each operation.
        functions: Number of nodes that call a function, which `torch._dynamo.explain` counts as operations.
        traces: Stacks of the first and the last operation, as printed by torch.
        ends_in_break: Whether Dynamo reports that it ends at a graph break.
    """

    ops: Counter[str]
    functions: int
    traces: tuple[str, ...]
    ends_in_break: bool

    @property
    def op_count(self) -> int:
        """Number of operations."""
        return sum(self.ops.values())

    def described(self, target: LoadedTarget) -> CompiledGraph:
        """Return the graph as stored in results."""
        places = [each for each in (place(target, frames_in(trace)) for trace in self.traces) if each is not None]
        first, last = (f"{each.file}:{each.line}" for each in (places[0], places[-1])) if places else (None, None)
        return CompiledGraph(self.op_count, dict(sorted(self.ops.items())), first, last)


def read_graph(module: torch.fx.GraphModule) -> Graph:
    """Return the contents of a captured graph."""
    nodes = [node for node in module.graph.nodes if node.op in _CALLS]
    reason = getattr(module, "compile_subgraph_reason", None)
    traces = [trace for node in nodes if (trace := node.stack_trace)]
    return Graph(
        ops=Counter(_name(module, node) for node in nodes),
        functions=sum(node.op == "call_function" for node in nodes),
        traces=tuple(dict.fromkeys(traces[:1] + traces[-1:])),
        ends_in_break=bool(getattr(reason, "graph_break", False)),
    )


def _name(module: torch.fx.GraphModule, node: torch.fx.Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    if node.op == "call_module":
        return type(module.get_submodule(str(node.target))).__name__
    target = node.target
    if isinstance(target, (OpOverload, HigherOrderOperator)):
        return str(target)
    name = getattr(target, "__name__", str(target))
    return f"{_home(getattr(target, '__module__', None))}{name}"


def _home(module: str | None) -> str:
    if module in (None, "builtins", "_operator", "math"):
        return ""
    if module.startswith("torch.nn.functional") or module == "torch._C._nn":
        return "functional."
    return "torch." if module.startswith("torch") else f"{module}."


@dataclass(repr=False)
class AutogradBackend:
    """Backend that traces forward and backward ahead of time, like inductor's first stage, and runs them eagerly.

    Attributes:
        forward: Graphs of the forward pass, in ATen operations.
        inference: Graphs without gradients.
        backward: Graphs of the backward pass.
        has_failed: Whether a graph could not be traced, and ran untraced instead.
    """

    forward: list[Graph] = field(default_factory=list)
    inference: list[Graph] = field(default_factory=list)
    backward: list[Graph] = field(default_factory=list)
    has_failed: bool = False

    def __post_init__(self) -> None:
        """Create the backend that Dynamo calls."""
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch._aot_autograd.utils import make_boxed_func
        from torch._functorch.partitioners import default_partition

        def into(graphs: list[Graph]) -> Callable[..., Any]:
            def take(module: torch.fx.GraphModule, _inputs: list[Any]) -> Callable[..., Any]:
                graphs.append(read_graph(module))
                return make_boxed_func(module.forward)

            return take

        # The default partitioner imports all of inductor, which takes 0.7 s.
        self._traced = aot_autograd(
            fw_compiler=into(self.forward),
            bw_compiler=into(self.backward),
            inference_compiler=into(self.inference),
            partition_fn=default_partition,
        )

    def __repr__(self) -> str:
        """Return the backend's name for Dynamo's messages."""
        return "autograd ahead of time"

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Receive a graph from Dynamo and return a callable that runs it."""
        traced: Callable[..., Any] = self._traced(module, inputs)
        return traced

    def or_plain(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Return a callable that runs a graph, untraced if it cannot be traced."""
        try:
            return self(module, inputs)
        except Exception:  # noqa: BLE001 - tracing raises any error of an operator's formula; a separate run shows it
            self.has_failed = True
            return module.forward


@dataclass
class CountingBackend:
    """Backend that runs each graph unchanged.

    Attributes:
        ahead: Also traces autograd of each graph, which saves a second compilation.
        graphs: Captured graphs, in order.
        runs: Number of graph runs.
    """

    ahead: AutogradBackend | None = None
    graphs: list[Graph] = field(default_factory=list)
    runs: int = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Receive a graph from Dynamo and return a callable that runs it."""
        self.graphs.append(read_graph(module))
        run = module.forward if self.ahead is None else self.ahead.or_plain(module, inputs)

        def counted(*args: Any) -> Any:
            self.runs += 1
            return run(*args)

        return counted


@contextmanager
def instead_of_inductor(backend: Callable[..., Any]) -> Iterator[None]:
    """Compile the graphs of the user's own compilation with our backend: inductor would take minutes."""
    wrapper: Any = getattr(torch, "_TorchCompileInductorWrapper", None)
    if wrapper is None:
        yield
        return
    kept = wrapper.__call__
    wrapper.__call__ = lambda _self, module, inputs: backend(module, inputs)
    try:
        yield
    finally:
        wrapper.__call__ = kept
