"""Operators that are defined by a schema, and the functions that implement them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Call, FileTables, Function

_ALIASED = pattern(r"Tensor\(\w+!?( -> \*)?\)")


def implementations(file: FileTables) -> Iterator[Function]:
    """Yield the functions that implement an operator whose schema stands in the file and says nothing of aliases."""
    schemas = dict(filter(None, (_schema(each) for each in file.calls_ending("define"))))
    if not schemas:
        return
    named = {function.name: function for function in file.functions[0].inner}
    for function in file.functions:
        for path, node in zip(function.decorators, getattr(function.node, "decorator_list", ()), strict=False):
            if path == "torch.library.impl()" and isinstance(node, ast.Call) and _is_plain(_texts(node.args), schemas):
                yield function
    for call in file.calls_ending("impl"):
        handed = named.get(dotted(call.node.args[1])) if call.receiver and len(call.node.args) > 1 else None
        if handed is not None and _is_plain(_texts(call.node.args[:1]), schemas):
            yield handed


def _schema(call: Call) -> tuple[str, str] | None:
    """Return an operator's name and schema from `lib.define("f(Tensor x) -> Tensor")` or `define("m::f", "(...)")`."""
    text = "".join(_texts(call.node.args[:2]))
    name, parenthesis, rest = text.partition("(")
    return (name.rpartition("::")[2].strip(), parenthesis + rest) if parenthesis and "->" in rest else None


def _texts(nodes: list[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _is_plain(texts: list[str], schemas: dict[str, str]) -> bool:
    """Return whether the operator of that name is known, and none of its tensors is said to be aliased."""
    names = [text.rpartition("::")[2] for text in texts[:1]]
    return any(name in schemas and _ALIASED.search(schemas[name]) is None for name in names)
