"""Values that only pass through a local name."""

from __future__ import annotations

import ast

import pytest

from esper_agents.review.inlined_names import with_values_inlined


def inlined(*lines: str) -> str:
    tree = ast.parse("def f(x, y):\n" + "".join(f"    {line}\n" for line in lines))
    return "; ".join(ast.unparse(each) for each in with_values_inlined(tree.body[0]).body)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("z = g(x)", "return z * 2"), "return g(x) * 2"),
        (("z = g(x)", "z2 = z.abs()", "return z2"), "return g(x).abs()"),
        (("z = g(x)", "return y + z"), "return y + g(x)"),
        (("z = x + 1", "return y * 2 + z"), "return y * 2 + (x + 1)"),
    ],
)
def test_a_value_that_is_used_next_needs_no_name(lines, expected):
    assert inlined(*lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        # It is read twice, is read later, or is a parameter.
        ("z = g(x)", "return z * z"),
        ("z = g(x)", "x.add_(1)", "return z"),
        ("y = g(x)", "return y"),
        # Something else would run first: `g` may change what `y * 2` or `h()` sees.
        ("z = g(x)", "return y * 2 + z"),
        ("z = g(x)", "return h() + z"),
        ("z = x + 1", "return h() + z"),
        # It would run more often, later or not at all.
        ("z = g(x)", "return [z for _ in y]"),
        ("z = g(x)", "return y and z"),
        ("z = g(x)", "return z if y else 0"),
        ("z = g(x)", "return lambda: z"),
        ("z = g(x)", "while z:", "    pass"),
        ("nonlocal z", "z = g(x)", "return z"),
    ],
)
def test_a_value_whose_evaluation_would_move_keeps_its_name(lines):
    if lines[0].startswith("nonlocal"):
        lines = ("global z", *lines[1:])
    assert inlined(*lines) == "; ".join(ast.unparse(each) for each in ast.parse("\n".join(lines)).body)


def test_what_is_no_function_stays():
    tree = ast.parse("z = g()\nprint(z)\n")
    assert with_values_inlined(tree) is tree
