"""Tests of direct questions about an API through `esper submit`."""

from __future__ import annotations

import pytest
from places import Place

LOADER = "from torch.utils.data import DataLoader\n\nloader = DataLoader(data, persistent_workers=True)\n"


@pytest.fixture
def loading(project, tmp_path):
    (project / "load.py").write_text(LOADER)
    return Place(project, tmp_path / "home")


def test_a_direct_question_is_answered_by_its_line_and_by_nothing_else(loading):
    shown = loading.esper("submit", "do i need persistent_workers?", "load.py", code=0).stdout
    answer = " ".join(shown.partition("answer ")[2].split())
    assert answer.startswith("load.py:3 `persistent_workers=True` needs workers: with `num_workers=0`")
    assert "static-review" not in shown
    assert "also" not in shown


def test_a_dry_run_shows_the_api_and_what_the_user_states(loading):
    words = "is persistent_workers right? we run torch 2.4"
    shown = loading.esper("submit", "--dry-run", words, "load.py", code=0).stdout
    assert "asks about persistent-workers (persistent_workers)" in " ".join(shown.split())
    assert "torch = 2.4 (torch 2.4)" in " ".join(shown.split())
    assert "question   advice" in shown


def test_a_question_whose_words_no_agent_knows_is_answered(loading):
    (loading.root / "load.py").write_text("from torch import nn\n\nembedding = nn.Embedding(9, 3, padding_idx=0)\n")
    shown = loading.esper("submit", "do i need padding_idx", "load.py", code=0).stdout
    assert "the code does not say" in " ".join(shown.split())
