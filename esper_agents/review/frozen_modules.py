"""Places where all parameters of a module are frozen, and where some are switched on again."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import FileTables, Function

_OVER = (".parameters()", ".named_parameters()")


@dataclass(frozen=True, slots=True)
class Freezing:
    """A place where all parameters of a module are frozen.

    Attributes:
        path: The module, as written.
        node: The loop or the call.
        function: The function it stands in.
    """

    path: str
    node: ast.For | ast.Call
    function: Function

    @property
    def line(self) -> int:
        """The line it starts on."""
        return self.node.lineno

    @property
    def last_line(self) -> int:
        """The line it ends on."""
        return self.node.end_lineno or self.node.lineno


def freezings(file: FileTables) -> list[Freezing]:
    """Return the places of a file that freeze a module as a whole."""
    return file.once("freezings", lambda: list(_find(file)))


def _find(file: FileTables) -> Iterator[Freezing]:
    if "requires_grad" not in file.text:
        return
    for function in file.functions:
        for block in function.blocks:
            node = block.node
            path = _module_over(node) if isinstance(node, ast.For) else ""
            if path and isinstance(node, ast.For) and _freezes(node):
                yield Freezing(path, node, function)
        for call in function.calls:
            given = call.argument(0, "requires_grad")
            if call.tail == "requires_grad_" and call.receiver and _is_false(given) and "(" not in call.receiver:
                yield Freezing(call.receiver, call.node, function)


def _module_over(loop: ast.For) -> str:
    """Return the module over whose parameters a loop goes; empty if it does not."""
    value: ast.expr = loop.iter
    while isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"list", "tuple"} and value.args:
        value = value.args[0]
    path = dotted(value)
    end = next((each for each in _OVER if path.endswith(each)), "")
    path = path.removesuffix(end) if end else ""
    return path if "(" not in path and "[" not in path else ""


def _freezes(loop: ast.For) -> bool:
    """Return whether a loop freezes each parameter, whatever its name."""
    names = {dotted(each) for each in walk(loop.target)}
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=held, attr="requires_grad")], value=value):
                if dotted(held) in names and _is_false(value):
                    return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="requires_grad_"), args=args)):
                if dotted(held) in names and args and _is_false(args[0]):
                    return True
            case ast.If() | ast.Continue() | ast.Break():
                return False
            case _:
                pass
    return False


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def switches_on(function: Function, after: int) -> bool:
    """Return whether a function lets parameters require gradients, or may, below a line."""
    for path, assignments in function.assignments.items():
        if path.endswith(".requires_grad") and any(
            each.line > after and not _is_false(each.value) for each in assignments
        ):
            return True
    return any(
        call.line > after
        and (
            (call.tail == "requires_grad_" and not _is_false(call.argument(0, "requires_grad")))
            or "freeze" in call.tail
            or call.tail in {"get_peft_model", "inject_adapter", "add_adapter", "setattr"}
        )
        for call in function.calls
    )
