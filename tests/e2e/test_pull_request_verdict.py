"""`esper submit --pr --allow run-tests` in CI: no terminal, no model, no answer of a person."""

from __future__ import annotations

import pytest
from places import Place

TRAIN = """def train(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""
# Without torch, which takes seconds to load.
TEST = """from unittest.mock import MagicMock

from train import train


def test_the_losses_are_added_up():
    model = MagicMock()
    model.return_value.mean.return_value.item.return_value = 3.0
    assert train(model, [1, 2], MagicMock()) == 6.0
"""
SETTINGS = '[tool.pytest.ini_options]\npythonpath = ["."]\n'
SUBMIT = ("submit", "--pr", "--allow", "run-tests", "safe to merge?")


@pytest.fixture
def branch(make_project, home, git):
    """Return a place whose branch changes `train.py`."""

    def make(text):
        root = make_project({"train.py": TRAIN, "tests/test_train.py": TEST, "pyproject.toml": SETTINGS})
        git(root, "switch", "-q", "-c", "feature")
        (root / "train.py").write_text(text)
        git(root, "commit", "-q", "-a", "-m", "second")
        return Place(root, home)

    return make


@pytest.mark.slow
def test_passing_tests_of_a_sound_branch_give_a_go_that_the_pull_request_shows(branch, git):
    place = branch(TRAIN.replace("    return total", "    return float(total)"))
    done = place.esper(*SUBMIT, code=0)
    assert "GO for the change --pr" in done.stdout
    shown = place.esper("pr", "--gate", "uncovered", code=0).stdout
    assert "**Verdict:** **GO** for the changed file (`crt_" in shown
    # A later commit is not covered by it.
    (place.root / "train.py").write_text(TRAIN.replace("    total = 0.0\n", "    total = 0.0 + 0.0\n"))
    git(place.root, "commit", "-q", "-a", "-m", "third")
    assert "**Verdict:** none yet" in place.esper("pr", "--gate", "uncovered", code=8).stdout


@pytest.mark.slow
def test_failing_tests_give_a_verdict_against_the_branch(branch):
    place = branch(TRAIN.replace("    return total", "    return total + 1.0"))
    done = place.esper(*SUBMIT, code=3)
    assert "NO_GO for the change --pr" in done.stdout
    shown = place.esper("pr", code=3).stdout
    assert "**Verdict:** **NO_GO**, against `train.py` (`crt_" in shown
