"""ESP426: work on a GPU is timed without waiting for it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.index import resolve
from esper_agents.review.models import forward_calls
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_CLOCKS = frozenset(
    {"time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer", "time.time_ns"}
    | {"time.perf_counter_ns"}
)
# Calls that do not wait for the GPU.
_NOT_WAITING = frozenset(
    {"no_grad", "inference_mode", "autocast", "range", "zero_grad", "backward", "step", "eval", "train"}
)


class TimingWithoutSynchronize(Rule):
    """The time around a model on a GPU, where nothing between the two readings of the clock waits for the GPU.

    ## Why it costs
    Calls on a GPU return before the work is done. The difference is the time that it takes to hand out the work, often
    a small part of the whole, and comparisons of it mean nothing.

    ## When it is right
    With `torch.cuda.synchronize()` before both readings, with `torch.cuda.Event`, or where `.item()` or `.cpu()` waits.
    Only models are judged that the same function moves to a GPU.

    ## Sources
    PyTorch documentation, CUDA semantics, section on asynchronous execution.
    """

    code, name = "ESP426", "timing-without-synchronize"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "import time\n"
        "\n"
        "import torch\n"
        "\n"
        "\n"
        "def seconds(model, x):\n"
        '    model = model.to("cuda").eval()\n'
        '    x = x.to("cuda")\n'
        "    with torch.inference_mode():\n"
        "        start = time.perf_counter()\n"
        "        model(x)\n"
        "        return time.perf_counter() - start\n"
    )
    good = bad.replace("        return time", "        torch.cuda.synchronize()\n        return time")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the differences of times between which only work for a GPU is handed out."""
        for function in {call.function: None for call in file.calls if call.name in _CLOCKS}:
            forwards = {id(each.node): each for each in forward_calls(file, index) if each.function is function}
            for reading in function.calls if forwards else ():
                start = _start(reading)
                between = _between(start, reading, function) if start is not None else []
                run = [forwards[id(each.node)] for each in between if id(each.node) in forwards]
                others = [each for each in between if id(each.node) not in forwards]
                if run and all(each.tail in _NOT_WAITING for each in others) and _is_on_gpu(run[0].path, function):
                    yield self.hit(
                        reading.node,
                        f"nothing waits for the GPU between line {run[0].line} and this reading of the clock: this "
                        "is the time of handing out work",
                        remedy="call `torch.cuda.synchronize()` before each reading of the clock",
                        basis=SEEN,
                    )


def _start(reading: Call) -> int | None:
    """Return the line of the first reading in `clock() - start`."""
    parent, function = reading.parent, reading.function
    if reading.name not in _CLOCKS:
        return None
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.left is reading.node:
        begun = function.last_assignment(dotted(parent.right), reading.line)
    else:
        ended = [path for path, known in function.assignments.items() if known[-1].value is reading.node]
        begun = next((each for path in ended for each in _subtracted(path, reading)), None)
    is_clock = begun is not None and isinstance(begun.value, ast.Call)
    if begun is None or not is_clock or resolve(dotted(begun.value.func), function) not in _CLOCKS:  # type: ignore[attr-defined]
        return None
    return begun.line


def _subtracted(end: str, reading: Call) -> Iterator[Assignment]:
    """Yield the first reading that is subtracted from a second one with a name."""
    function = reading.function
    for node in walk(function.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and dotted(node.left) == end:
            begun = function.last_assignment(dotted(node.right), reading.line)
            if begun is not None:
                yield begun


def _between(start: int, reading: Call, function: Function) -> list[Call]:
    """Return the calls between two readings of the clock."""
    return [each for each in function.calls if start < each.line < reading.line]


def _is_on_gpu(model: str, function: Function) -> bool:
    """Return whether a function moves a model to a GPU."""
    for call in function.calls:
        is_moved = call.tail == "cuda" or (call.tail == "to" and "cuda" in _device(call))
        if not is_moved:
            continue
        if call.receiver == model:
            return True
        assigned = function.assignments.get(model, ())
        if any(part is call.node for each in assigned for part in walk(each.value)):
            return True
    return False


def _device(call: Call) -> str:
    given = call.argument(0, "device")
    if isinstance(given, ast.Name):
        found = call.function.last_assignment(given.id, call.line)
        given = found.value if found is not None else given
    text = ast.unparse(given) if given is not None else ""
    return "" if "cpu" in text else text
