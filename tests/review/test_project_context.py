"""Files are analysed with their project, and only they are reported."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from esper_agents.domain.finding import Category
from esper_agents.errors import InputFileError, NotFoundError
from esper_agents.review.cache import Cache
from esper_agents.review.project_context import review_in_project

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.review.report import ReviewReport

_MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.drop(x))


def evaluate(model, loader):
    good = 0
    with torch.no_grad():
        for x, y in loader:
            good += (model(x).argmax(1) == y).sum()
    return good
"""
_TRAIN = """\
import torch
from lib.model import Net, evaluate


def main(loader, val):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    torch.load("weights.pt", weights_only=False)
    print(evaluate(net, val))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "model.py").write_text(_MODEL)
    (tmp_path / "train.py").write_text(_TRAIN)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def _found(report: ReviewReport) -> list[tuple[str, int, str]]:
    return [(claim.location.path, claim.location.line, claim.rule) for claim in report.claims]


def test_a_finding_that_only_a_caller_shows_is_reported_for_the_file_alone(project: Path) -> None:
    report = review_in_project(project, [project / "lib" / "model.py"])

    assert ("lib/model.py", 19, "ESP102") in _found(report)
    assert [each.path for each in report.examined] == ["lib/model.py"]
    assert (report.lines, report.torch_files, report.context_files) == (20, 1, 1)


def test_file_folder_and_project_have_the_same_findings(project: Path) -> None:
    whole = _found(review_in_project(project, [project]))

    assert whole
    for named in ("lib/model.py", "lib", "train.py"):
        inside = [each for each in whole if each[0].startswith(named)]
        assert _found(review_in_project(project, [project / named])) == inside


def test_the_cache_answers_for_another_file_and_other_rules_after_the_first(project: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "reports")
    first = review_in_project(project, [project / "train.py"], cache=cache)
    kept = list((tmp_path / "reports").iterdir())

    second = review_in_project(project, [project / "lib"], categories=[Category.SECURITY], cache=cache)

    assert len(kept) == 1
    assert list((tmp_path / "reports").iterdir()) == kept
    assert _found(first)
    assert _found(second) == []
    assert set(second.rules) < set(first.rules)


def test_a_suppressed_finding_of_another_file_is_not_counted(project: Path) -> None:
    train = project / "train.py"
    said = "weights_only=False)  # esper: ignore[ESP901] written by this program"
    train.write_text(_TRAIN.replace("weights_only=False)", said))

    assert review_in_project(project, [project / "lib"]).suppressed == 0
    assert [each.claim.rule for each in review_in_project(project, [train]).silenced] == ["ESP901"]


def test_a_project_above_the_size_is_not_analysed_whole(project: Path) -> None:
    report = review_in_project(project, [project / "lib"], most_bytes=100)

    assert (_found(report), report.context_files, report.context_sha256) == ([], 0, "")


def test_files_outside_a_git_project_are_analysed_alone(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(_MODEL)
    (tmp_path / "train.py").write_text(_TRAIN.replace("lib.model", "model"))

    assert review_in_project(tmp_path, [tmp_path / "model.py"]).context_files == 0


def test_the_context_digest_changes_with_the_other_files_only(project: Path) -> None:
    model = project / "lib" / "model.py"
    before = review_in_project(project, [model]).context_sha256

    model.write_text(_MODEL + "\n")
    assert review_in_project(project, [model]).context_sha256 == before
    (project / "train.py").write_text(_TRAIN + "\n")
    assert review_in_project(project, [model]).context_sha256 != before


def test_a_named_file_in_an_excluded_folder_is_reported(project: Path) -> None:
    hidden = project / ".tools" / "load.py"
    hidden.parent.mkdir()
    hidden.write_text('import torch\n\ntorch.load("a.pt", weights_only=False)\n')

    assert [each.path for each in review_in_project(project, [hidden]).examined] == [".tools/load.py"]


def test_an_empty_named_file_and_an_unknown_rule_are_refused(project: Path) -> None:
    (project / "empty.py").write_text("")

    with pytest.raises(InputFileError, match="the file is empty"):
        review_in_project(project, [project / "empty.py"])
    with pytest.raises(NotFoundError):
        review_in_project(project, [project / "lib"], rules=["ESP999"])


def test_an_unreadable_file_of_any_name_is_named_and_those_of_other_folders_are_not(project: Path) -> None:
    (project / "odd").mkdir()
    (project / "odd" / os.fsdecode(b"\xe9.py")).write_text("import torch\n")
    (project / "odd" / "latin.py").write_bytes(b"x = '\xe9'\n")

    assert len(review_in_project(project, [project]).unreadable) == 2
    assert len(review_in_project(project, [project / "odd"]).unreadable) == 2
    assert review_in_project(project, [project / "lib"]).unreadable == ()
