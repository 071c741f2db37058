"""ESP117: an input is made to require gradients after the forward whose gradient is asked for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import names_in
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, FileRule, RuntimeExpectation
from esper_agents.review.training import is_backward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_NO_FORWARD = frozenset(
    {"size", "dim", "numel", "to", "cuda", "cpu", "detach", "clone", "len", "print", "isinstance", "float", "append"}
    | {"zeros_like", "ones_like", "rand_like", "randn_like", "empty_like", "requires_grad_", "int", "range", "debug"}
    | {"retain_grad", "is_tensor", "info", "save", "list", "tuple", "reshape", "view", "unsqueeze", "contiguous"}
)


class RequiresGradAfterForward(FileRule):
    """An input whose gradient is read, and which is made to require gradients only after the forward.

    ## Why it costs
    Autograd records an operation only for inputs that require gradients when it runs. An input that is switched on
    afterwards is in no graph: its `grad` stays `None`, and `torch.autograd.grad` raises that it was not used.

    ## When it is right
    `x.requires_grad_()` before the forward. Reported only if nothing uses the input between the switch and the
    backward.

    ## Sources
    PyTorch notes, "Autograd mechanics", "Setting requires_grad".
    """

    code, name = "ESP117", "requires-grad-after-forward"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def saliency(model, x):\n"
        "    scores = model(x)\n"
        "    x.requires_grad_()\n"
        "    scores.max().backward()\n"
        "    return x.grad.abs()\n"
    )
    good = bad.replace(
        "    scores = model(x)\n    x.requires_grad_()\n", "    x.requires_grad_()\n    scores = model(x)\n"
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the switches that come after the forward."""
        if not file.imports_torch:
            return
        for function in file.functions:
            for path, nodes in _switches(function).items():
                first = min(nodes, key=lambda each: each.lineno)
                sent = _asked(path, first.lineno, function)
                forward = _used(path, 0, first.lineno, function)
                if (
                    sent is None
                    or forward is None
                    or _used(path, first.lineno, sent.line, function, skip=(first, sent.node))
                ):
                    continue
                yield self.hit(
                    first,
                    f"{path!r} requires gradients only after {forward.path!r} (line {forward.line}) has used it, so it "
                    f"gets no gradient in line {sent.line}",
                    remedy=f"call `{path}.requires_grad_()` before the forward",
                    basis=SEEN,
                )


def _switches(function: Function) -> dict[str, list[ast.expr | ast.stmt]]:
    """Return where a function switches tensors on, by path; none of a path that is made requiring gradients."""
    found: dict[str, list[ast.expr | ast.stmt]] = {}
    for path, assignments in function.assignments.items():
        name = path.removesuffix(".requires_grad")
        if name != path and name.isidentifier():
            found.setdefault(name, []).extend(each.statement for each in assignments)
    for call in function.calls:
        if call.tail == "requires_grad_" and call.receiver.isidentifier() and isinstance(call.statement, ast.Expr):
            found.setdefault(call.receiver, []).append(call.node)
    return {path: nodes for path, nodes in found.items() if len(nodes) == 1 and not _is_made_so(path, function)}


def _is_made_so(path: str, function: Function) -> bool:
    """Return whether a tensor is made requiring gradients, bound more than once, or drawn by a loop."""
    made = function.assignments.get(path, ())
    is_drawn = any(isinstance(each.statement, ast.For) for each in made)
    return len(made) > 1 or is_drawn or any("requires_grad" in ast.unparse(each.value) for each in made)


def _asked(path: str, line: int, function: Function) -> Call | None:
    """Return the call that makes the gradient of a tensor below a line, if that gradient is read."""
    reads = [
        each.lineno
        for each in walk(function.node)
        if isinstance(each, ast.Attribute) and each.attr == "grad" and dotted(each.value) == path
    ]
    for call in function.calls:
        if call.line <= line:
            continue
        if is_backward(call) and any(each >= call.line for each in reads):
            return call
        inputs = call.argument(1, "inputs") if call.name == "torch.autograd.grad" else None
        if inputs is not None and path in names_in(inputs):
            return call
    return None


def _used(path: str, start: int, end: int, function: Function, skip: tuple[ast.AST, ...] = ()) -> Call | None:
    """Return a call between two lines that computes something from a tensor."""
    made = function.last_assignment(path, end)
    start = max(start, made.line if made is not None else 0)
    for call in function.calls:
        if not start < call.line <= end or call.node in skip or call.tail in _NO_FORWARD:
            continue
        given = [*call.node.args, *(each.value for each in call.node.keywords)]
        own = call.receiver.partition(".")[0] == path
        if own or any(path in names_in(each) for each in given):
            return call
    return None
