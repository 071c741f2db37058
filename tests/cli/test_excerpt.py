"""The line that a finding is about, and the mark under it."""

from __future__ import annotations

import pytest

from esper_agents.cli.review.source_excerpt import excerpt


def under(text, column, columns=100):
    """Return what the mark stands under."""
    shown = excerpt(text, column, columns)
    start = len(shown.mark) - len(shown.mark.lstrip())
    return shown.line[start : len(shown.mark)]


@pytest.mark.parametrize(
    ("text", "column", "meant"),
    [
        ("    loss.backward()", 5, "loss.backward()"),
        ("y = checkpoint(block, x)  # slow", 5, "checkpoint(block, x)"),
        ('y = f(a)[0].g(\'(\', "\\")") + 1', 5, 'f(a)[0].g(\'(\', "\\")")'),
        ("state = torch.load(", 9, "torch.load("),
        ("for x in loader:", 1, "for"),
        ("@torch.compile", 1, "@torch.compile"),
        ("x = 1  # esper: ignore", 8, "# esper: ignore"),
        ("f(g(x), y)", 3, "g(x)"),
        ("(a)", 1, "(a)"),
    ],
)
def test_the_mark_stands_under_what_is_meant(text, column, meant):
    assert under(text, column) == meant


def test_tabs_and_wide_characters_are_counted_as_they_are_shown():
    assert excerpt("\tx = f(y)", 6, 80).mark == "\t    ^^^^"
    assert excerpt('x = "漢字"; f(y)', 11, 80).mark == " " * 12 + "^^^^"
    assert excerpt("x = 'e\u0301'; f(y)", 11, 80).mark == " " * 9 + "^^^^"
    assert excerpt("x = '\x1b'; f(y)", 10, 80).mark == " " * 12 + "^^^^"


@pytest.mark.parametrize("column", [0, 6, 99])
def test_a_place_outside_the_line_is_not_marked(column):
    assert excerpt("x = 1", column, 80).mark == ""


def test_a_long_line_is_cut_round_the_place():
    shown = excerpt("x" * 500 + " = f(y)" + "z" * 500, 504, 60)
    assert len(shown.line) <= 60
    assert shown.line.startswith("...")
    assert shown.line.endswith("...")
    assert under("x" * 500 + " = f(y) + " + "z" * 500, 504, 60) == "f(y)"


def test_a_very_long_line_is_cut_at_once():
    assert len(excerpt("(" * 100_000, 50_000, 80).line) <= 80
