"""Lines are numbered as the parser and editors number them."""

from __future__ import annotations

import ast

import pytest

from esper_agents.domain.text_lines import text_lines

ENDS = "a\nb\r\nc\rd"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        (ENDS, ["a", "b", "c", "d"]),
        (f"{ENDS}\n", ["a", "b", "c", "d"]),
        ("a\n\n", ["a", ""]),
        ("a\n\x0c\nb\u2028c\x85d\n", ["a", "\x0c", "b\u2028c\x85d"]),
    ],
)
def test_only_line_feeds_and_carriage_returns_end_a_line(text, lines):
    assert text_lines(text) == lines


def test_a_definition_after_a_form_feed_has_the_line_of_the_parser():
    text = 'import torch\n\x0c\n# a\u2028b\nx = "p\x1cq"\n\n\ndef f():\n    return x\n'
    (function,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    assert text_lines(text)[function.lineno - 1] == "def f():"
