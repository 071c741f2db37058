"""Lint reviews through the public API."""

from __future__ import annotations

import subprocess
import types
from pathlib import Path

import pytest

from esper_agents.api import (
    Category,
    ReviewOptions,
    fixes_as_patch,
    lint_rules,
    open_project_sync,
    review_files,
    review_line,
    rule_page,
    write_baseline,
)
from esper_agents.errors import DefinitionError, InputFileError, NotFoundError, UsageError
from esper_agents.review import catalogue

LOOP = """\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""
FIXABLE = "import torch\n\nwith torch.cuda.amp.autocast():\n    loss = model(x)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    here = tmp_path / "work"
    here.mkdir()
    (here / "train.py").write_text(LOOP)
    monkeypatch.chdir(here)
    return here


def codes(outcome):
    return [claim.rule for claim in outcome.report.claims]


def test_a_review_reports_diagnostics_and_makes_no_project_database(folder, tmp_path):
    assert codes(review_files(ReviewOptions((Path("train.py"),)))) == ["ESP101", "ESP301"]
    assert not (tmp_path / "home/projects").exists()


def test_a_review_runs_the_rules_that_are_named(folder):
    assert codes(review_files(ReviewOptions((Path("train.py"),), rules=["loss-kept-with-graph"]))) == ["ESP301"]
    assert codes(review_files(ReviewOptions((Path("train.py"),), categories=[Category.MEMORY]))) == ["ESP301"]


def test_options_that_select_no_rule_are_refused(folder):
    options = ReviewOptions((Path("train.py"),), rules=["ESP301"], categories=[Category.SECURITY])
    with pytest.raises(UsageError, match="none of the rules named is in security"):
        review_files(options)


def test_an_installation_without_rules_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(catalogue, "iter_modules", lambda _: [])
    catalogue._installed.cache_clear()
    try:
        with pytest.raises(DefinitionError, match="contains no lint rule"):
            review_files(ReviewOptions((Path("train.py"),), may_cache=False))
    finally:
        monkeypatch.undo()
        catalogue._installed.cache_clear()


def test_contradictory_options_are_refused(folder):
    with pytest.raises(UsageError, match="mutually exclusive"):
        ReviewOptions((), revision="main", is_staged=True)
    with pytest.raises(UsageError, match="no path was named"):
        ReviewOptions(())


def test_a_written_baseline_hides_its_findings(folder):
    options = ReviewOptions((Path("train.py"),))
    assert len(write_baseline(options, Path("accepted.json")).claims) == 2
    outcome = review_files(ReviewOptions((Path("train.py"),), baseline=Path("accepted.json")))
    assert (codes(outcome), len(outcome.known)) == ([], 2)
    with pytest.raises(InputFileError, match="cannot be written"):
        write_baseline(options, Path("nowhere/accepted.json"))


def test_a_line_is_reviewed_with_its_context_and_the_lines_of_other_findings(folder):
    found = review_line(ReviewOptions((Path("train.py"),)), Path("train.py"), 5)
    assert ([diagnostic.rule for diagnostic in found.diagnostics], found.other_lines) == (["ESP301"], (3,))
    assert dict(found.source) == dict(enumerate(LOOP.splitlines()[1:], 2))
    with pytest.raises(UsageError, match="has no line 9"):
        review_line(ReviewOptions((Path("train.py"),)), Path("train.py"), 9)


def test_the_suppressed_finding_of_a_line_is_returned_with_its_reason(folder):
    Path("train.py").write_text(LOOP.replace("(loss)", "(loss)  # esper: ignore[ESP301] 3 steps only"))
    (suppressed,) = review_line(ReviewOptions((Path("train.py"),)), Path("train.py"), 5).suppressed
    assert (suppressed.claim.rule, suppressed.reason) == ("ESP301", "3 steps only")


def test_rules_are_described_and_have_pages():
    (rule,) = lint_rules("item-in-training-loop")
    assert (rule.code, rule.severity, list(rule.bad)) == ("ESP305", "warning", ["train.py"])
    assert rule_page("ESP305").startswith("# ESP305 item-in-training-loop")
    assert [lint_rule.code for lint_rule in lint_rules()] == [each.code for each in catalogue.catalogue()]
    with pytest.raises(NotFoundError, match="no rule named 'ESP3O5'"):
        rule_page("ESP3O5")


def test_an_open_project_reviews_fixes_and_compares_its_files(folder):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    (folder / "amp.py").write_text(FIXABLE)
    with open_project_sync(folder) as project:
        new = project.review.check(project.review.options(revision="HEAD"))
        assert (set(codes(new)), new.earlier) == ({"ESP502"}, 2)
        options = project.review.options("amp.py")
        patch = project.review.patch(options)
        assert patch == fixes_as_patch(options, review_files(options))
        assert '+with torch.amp.autocast("cuda"):' in patch
        assert len(project.review.fix(options).mended) == 1
        assert "torch.cuda.amp" not in (folder / "amp.py").read_text()


def test_a_project_reviews_with_the_rules_that_it_was_opened_with(folder):
    extra = types.ModuleType("extra_rules")
    source = (
        "from esper_agents.domain.finding import Category, Severity\n"
        "from esper_agents.review.rule import FileRule\n"
        "class NamesLosses(FileRule):\n"
        '    """A name `losses`.\n\n    ## Why it costs\n    It does not.\n    """\n'
        "    code, name, severity, category = 'ESP199', 'names-losses', Severity.WARNING, Category.CORRECTNESS\n"
        "    bad = good = 'losses = []'\n"
        "    def look(self, file):\n"
        "        yield from (self.hit(c.node, 'losses', remedy='none') for c in file.calls_to('losses.append'))\n"
    )
    exec(compile(source, "extra_rules.py", "exec"), vars(extra))  # noqa: S102 - our own text
    with open_project_sync(folder, rules=[extra]) as project:
        assert codes(project.review.check(project.review.options("train.py", rules=["ESP199"]))) == ["ESP199"]
        assert [rule.name for rule in project.review.rules("ESP199")] == ["names-losses"]
        assert project.review.rule_page("ESP199").startswith("# ESP199 names-losses")
