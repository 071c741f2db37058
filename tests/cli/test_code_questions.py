"""Tests of questions about what code does through `esper submit`."""

from __future__ import annotations

import pytest
from places import Place

NORM = (
    "import math\n\n\nclass GhostNorm:\n    def __init__(self, norm, ghost_rows=128):\n"
    "        self.norm, self.ghost_rows = norm, ghost_rows\n\n    def forward(self, x):\n"
    "        pieces = x.chunk(math.ceil(len(x) / self.ghost_rows))\n"
    "        return [self.norm(each) for each in pieces]\n"
)


@pytest.fixture
def norms(project, tmp_path):
    (project / "norm.py").write_text(NORM)
    return Place(project, tmp_path / "home")


def test_the_answer_begins_with_the_line_that_decides(norms):
    words = "what do the ghost rows do and what happens if the batch isnt divisible by it"
    shown = norms.esper("submit", words, "norm.py", code=0).stdout
    answer = " ".join(shown.partition("answer ")[2].split())
    assert answer.startswith("`GhostNorm.forward` (norm.py:9) sets `pieces = x.chunk(")
    assert "only the last piece is smaller" in answer
    assert "the default of `ghost_rows` is `128` in `GhostNorm`" in answer
    assert "static-review" not in shown


def test_a_question_for_leave_about_behaviour_gets_no_verdict(norms):
    shown = norms.esper("submit", "is it ok if the ghost rows are not divisible?", "norm.py", code=0).stdout
    assert "CONDITIONALLY_APPROVED" not in shown
    assert "norm.py:9" in shown


def test_a_dry_run_shows_what_the_words_mean(norms):
    shown = norms.esper("submit", "--dry-run", "what do the ghost rows do?", "norm.py", code=0).stdout
    assert "word       ghost rows: attribute ghost_rows (norm.py:6)" in shown


def test_the_inspection_of_a_question_can_be_repeated(norms):
    shown = norms.esper("inspect", "norm.py", "--question", "what if ghost rows isnt divisible?", code=0).stdout
    assert "question-answers" in shown
    assert "norm.py:9  `GhostNorm.forward`" in shown
