"""Tests of paths and of going through a tree."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import esper_agents.review.builder
from esper_agents.review.names import below, dotted, root_of, walk

_ASIDE = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
STATEMENTS = """
match x:
    case {"a": y, **rest} if z:
        pass
    case Point(b=1) | [1, *others]:
        pass
    case None:
        pass
def f(*, a, b: int = 1, **more) -> str:
    global g
    import a.b as c
    return {**x, 1: 2, "k": [v async for v in w if v]}
try:
    value = -x[1:2, ...] if x and y else f"{x!r:>{width}}"
except (A, B) as error:
    raise C from error
"""


def test_all_nodes_but_contexts_and_operators_are_gone_through():
    for source in (STATEMENTS, Path(esper_agents.review.builder.__file__).read_text(encoding="utf-8")):
        tree = ast.parse(source)
        assert list(walk(tree)) == [each for each in ast.walk(tree) if not isinstance(each, _ASIDE)]


def test_what_is_directly_below_is_given_in_order_but_for_contexts_and_operators():
    for node in ast.walk(ast.parse(STATEMENTS)):
        assert below(node) == [
            child_node for child_node in ast.iter_child_nodes(node) if not isinstance(child_node, _ASIDE)
        ]


@pytest.mark.parametrize(
    ("expression", "path", "root"),
    [
        ("x", "x", "x"),
        ("self.net", "self.net", "self"),
        ("self.layers[0].forward", "self.layers[].forward", "self"),
        ("scaler.scale(loss).backward", "scaler.scale().backward", "scaler"),
        ("(a + b).sum", ".sum", ""),
        ("f(x)", "f()", "f"),
        ("1", "", ""),
    ],
)
def test_an_expression_is_a_path_with_a_root(expression, path, root):
    node = ast.parse(expression, mode="eval").body
    assert (dotted(node), root_of(dotted(node))) == (path, root)
