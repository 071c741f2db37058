"""Library files that a project names in its `pyproject.toml`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from esper_agents.errors import UsageError
from esper_agents.review.cache import review_cache
from esper_agents.review.engine import review

PAGE = (Path(__file__).parents[3] / "docs" / "review.md").read_text()
SETTING, ROWS, CODE = re.findall(
    r"```(?:toml|python)\n(.*?)```",
    PAGE.partition("## Facts about your own libraries")[2].partition("\n## ")[0],
    re.DOTALL,
)[:3]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(SETTING)
    (tmp_path / "libraries.toml").write_text(ROWS)
    (tmp_path / "evaluate.py").write_text(CODE)
    return tmp_path


def rules_of(folder, cache=None):
    report = review(folder, [folder / "evaluate.py"], cache=cache)
    assert not report.unreadable
    return [claim.rule for claim in report.claims]


def test_the_rows_of_the_page_let_the_review_see_the_mode_of_a_model(project):
    assert rules_of(project) == ["ESP102"]
    (project / "pyproject.toml").unlink()
    assert rules_of(project) == []


def test_a_changed_library_file_is_reviewed_again(project):
    cache = review_cache(lambda report: report)
    assert rules_of(project, cache) == ["ESP102"]
    (project / "libraries.toml").write_text(ROWS.replace('"training"', '"evaluation"'))
    assert rules_of(project, cache) == []


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ('libraries = "libraries.toml"', "is not a list of file names"),
        ("libraries = [3]", "is not a list of file names"),
        ('libraries = ["none.toml"]', "does not exist"),
        ('libraries = ["../other.toml"]', "is not in the project"),
        ('libraries = ["/etc/passwd"]', "is not in the project"),
        ('libraries = ["link.toml"]', "is not in the project"),
        ('libraries = ["bundled.toml"]', "describes 'torch'"),
    ],
)
def test_a_setting_that_is_not_valid_is_an_error(project, setting, problem):
    (project.parent / "other.toml").write_text(ROWS)
    (project / "link.toml").symlink_to(project.parent / "other.toml")
    (project / "bundled.toml").write_text('[[call]]\nnames = ["torch.load"]\nresult = "number"\n')
    (project / "pyproject.toml").write_text(f"[tool.esper.review]\n{setting}\n")
    with pytest.raises(UsageError) as error:
        rules_of(project)
    assert problem in str(error.value)


@pytest.mark.parametrize("text", ["[tool.esper", "tool = 3", "[tool]\nesper = 3", ""])
def test_a_project_without_the_setting_names_no_files(project, text):
    (project / "pyproject.toml").write_text(text)
    assert rules_of(project) == []
