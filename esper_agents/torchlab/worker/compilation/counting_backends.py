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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..target.target import LoadedTarget

_CALLS = frozenset({"call_function", "call_method", "call_module"})


@dataclass
class Graph:
    """One graph that dynamo captured.

    Attributes:
        ops: How often each operation stands in it.
        functions: How many of its nodes call a function, which is what `torch._dynamo.explain` counts as operations.
        traces: The stack that the first and the last operation come from, as torch prints it.
        ends_in_break: Whether dynamo says that it ends where it could not go on.
    """

    ops: Counter[str]
    functions: int
    traces: tuple[str, ...]
    ends_in_break: bool

    @property
    def op_count(self) -> int:
        """How many operations it holds."""
        return sum(self.ops.values())

    def described(self, target: LoadedTarget) -> dict[str, Any]:
        """Return it as results hold it."""
        found: dict[str, Any] = {"op_count": self.op_count, "ops": dict(sorted(self.ops.items()))}
        places = [each for each in (place(target, frames_in(trace)) for trace in self.traces) if each is not None]
        if places:
            found["first"], found["last"] = (f"{each['file']}:{each['line']}" for each in (places[0], places[-1]))
        return found


def read_graph(module: torch.fx.GraphModule) -> Graph:
    """Return what is in a captured graph."""
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
    """A backend that traces forward and backward ahead of time, as inductor's front half does, and runs them eagerly.

    Attributes:
        forward: The graphs of the forward pass, in operations of ATen.
        inference: Those from which no gradient is asked.
        backward: Those of the backward pass.
        has_failed: Whether a graph could not be traced, and ran as it was instead.
    """

    forward: list[Graph] = field(default_factory=list)
    inference: list[Graph] = field(default_factory=list)
    backward: list[Graph] = field(default_factory=list)
    has_failed: bool = False

    def __post_init__(self) -> None:
        """Make the backend that dynamo calls."""
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch._aot_autograd.utils import make_boxed_func
        from torch._functorch.partitioners import default_partition

        def into(graphs: list[Graph]) -> Callable[..., Any]:
            def take(module: torch.fx.GraphModule, _inputs: list[Any]) -> Callable[..., Any]:
                graphs.append(read_graph(module))
                return make_boxed_func(module.forward)

            return take

        # The other partitioner imports the whole of inductor, which takes 0.7 s.
        self._traced = aot_autograd(
            fw_compiler=into(self.forward),
            bw_compiler=into(self.backward),
            inference_compiler=into(self.inference),
            partition_fn=default_partition,
        )

    def __repr__(self) -> str:
        """Return what dynamo calls it in its messages."""
        return "autograd ahead of time"

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Take a graph from dynamo and return what runs it."""
        traced: Callable[..., Any] = self._traced(module, inputs)
        return traced

    def or_plain(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Return what runs a graph, as it is where it cannot be traced."""
        try:
            return self(module, inputs)
        except Exception:  # noqa: BLE001 - tracing raises whatever an operator's formula does; a run of its own shows it
            self.has_failed = True
            return module.forward


@dataclass
class CountingBackend:
    """A backend that runs each graph as it is.

    Attributes:
        ahead: Traces autograd of each graph as well while it is there, so that dynamo need not come twice.
        graphs: What was captured, in order.
        runs: How often a graph ran.
    """

    ahead: AutogradBackend | None = None
    graphs: list[Graph] = field(default_factory=list)
    runs: int = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Take a graph from dynamo and return what runs it."""
        self.graphs.append(read_graph(module))
        run = module.forward if self.ahead is None else self.ahead.or_plain(module, inputs)

        def counted(*args: Any) -> Any:
            self.runs += 1
            return run(*args)

        return counted


@contextmanager
def instead_of_inductor(backend: Callable[..., Any]) -> Iterator[None]:
    """Give the graphs of what user code compiles itself to a backend of ours: inductor would take minutes."""
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
