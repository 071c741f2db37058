"""Edits of a change: which statements a test must execute so that it can fail because of them."""

from __future__ import annotations

import time

import pytest

from esper_agents.tools.changed_lines import changed_lines

BEFORE = '''import torch
from os import path as p
LIMIT = 3


class Net:
    scale = 2

    def forward(self, x):
        """Doc."""
        x = x * self.scale  # comment
        if x > LIMIT:
            return p(x)
        return x


def train(m):
    m.train()
    with torch.no_grad():
        y = m(1)
        z = y
    return z
'''


def edits(old, new, before=BEFORE):
    """Return, for each edit, the source of the statements that execute it, in order."""
    assert old in before
    after = before.replace(old, new)
    lines = after.split("\n")
    return [
        [lines[number - 1].strip() for number in sorted(block.statements)]
        for block in changed_lines(before, after).blocks
    ]


@pytest.mark.parametrize(("old", "new"), [("# comment", "# other"), ("Doc.", "Dok."), ("\n\n\ndef", "\n\ndef")])
def test_comments_docstrings_and_blank_lines_are_no_edits(old, new):
    assert edits(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "statements"),
    [
        ("y = m(1)", "y = m(2)", ["y = m(2)"]),
        # The statement after a deletion stands for it, or the last one of the function.
        ("    m.train()\n", "", ["with torch.no_grad():"]),
        ("    return z\n", "", ["z = y"]),
        ("        x = x * self.scale  # comment\n", "", ["if x > LIMIT:"]),
        # Indentation counts: the lines run under another guard.
        (
            "    with torch.no_grad():\n        y = m(1)\n        z = y\n",
            "    y = m(1)\n    z = y\n",
            ["y = m(1)", "z = y"],
        ),
        # What an import runs is executed by what uses it.
        ("LIMIT = 3", "LIMIT = 4", ["if x > LIMIT:"]),
        ("scale = 2", "scale = 3", ["x = x * self.scale  # comment"]),
        ("path as p", "sep as p", ["return p(x)"]),
        (
            "import torch\n",
            "import numpy\n",
            ["x = x * self.scale  # comment", "if x > LIMIT:", "return p(x)", "return x"],
        ),
        # A signature or a decorator is executed by the body.
        (
            "def train(m)",
            "@torch.no_grad()\ndef train(m)",
            ["m.train()", "with torch.no_grad():", "y = m(1)", "z = y", "return z"],
        ),
    ],
)
def test_an_edit_is_executed_by_the_statements_that_it_changes(old, new, statements):
    (found,) = edits(old, new)
    assert found[: len(statements)] == statements


def test_each_function_of_a_change_is_an_edit_of_its_own():
    added = "    return z\n\n\ndef one():\n    a = 1\n    return a\n\n\ndef two(b):\n    return b\n"
    added += "\n\ndef stub():\n    pass\n"
    assert edits("    return z\n", added) == [["a = 1", "return a"], ["return b"]]


def test_a_deleted_public_function_cannot_be_executed_and_a_private_one_that_nothing_uses_need_not():
    gone = BEFORE[BEFORE.index("\n\ndef train") :]
    assert edits(gone, "") == [[]]
    private = BEFORE.replace("def train", "def _train")
    assert edits(gone.replace("def train", "def _train"), "", private) == []
    used = private + "\n\ndef run(m):\n    return _train(m)\n"
    assert edits(gone.replace("def train", "def _train"), "", used) == [["return _train(m)"]]


def test_a_new_file_and_a_script_count_as_a_whole():
    assert {len(block.statements) > 0 for block in changed_lines("", BEFORE).blocks} == {True}
    assert changed_lines("", "import x\n\nx.run()\n").statements == {3}


def test_a_text_that_is_not_python_is_refused_and_an_old_one_counts_as_empty():
    with pytest.raises(SyntaxError):
        changed_lines(BEFORE, "def")
    assert changed_lines("def", "def f():\n    return 1\n").statements == {2}


@pytest.mark.parametrize("functions", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_an_edit_of_fifty_thousand_lines_is_read_within_a_minute(functions):
    text = "".join(f"def f{number}(x):\n    y = x + {number}\n    return y\n\n\n" for number in range(functions))
    start = time.process_time()
    found = changed_lines(text, text.replace("x + ", "x - "))
    assert len(found.blocks) == len(found.statements) == functions
    assert time.process_time() - start < 60
