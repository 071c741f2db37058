"""Rules are found by themselves, also those of other packages."""

from __future__ import annotations

import sys
from textwrap import dedent
from types import ModuleType

import pytest

from esper_agents.domain.finding import Category
from esper_agents.errors import DefinitionError, NotFoundError
from esper_agents.review.catalogue import catalogue, find, select
from esper_agents.review.engine import review, review_sources
from esper_agents.review.pages import explain

RULE = """
    from esper_agents.domain.finding import Category, Severity
    from esper_agents.review.rule import FileRule


    class NoPrint(FileRule):
        code, name = "{code}", "no-print"
        severity, category = Severity.SUGGESTION, Category.PERFORMANCE
        bad = "print(1)\\n"
        good = "pass\\n"

        def look(self, file):
            for call in file.calls_ending("print"):
                yield self.hit(call.node, "a print", remedy="remove it")
    """


@pytest.fixture
def other_package(tmp_path, monkeypatch):
    """Return a function that puts a module with a rule on the path."""

    def make(code: str) -> ModuleType:
        (tmp_path / "house_rules.py").write_text(dedent(RULE.format(code=code)))
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("house_rules", None)
        module = __import__("house_rules")
        monkeypatch.delitem(sys.modules, "house_rules")
        return module

    return make


def test_a_rule_of_a_module_that_is_handed_over_runs(other_package, tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    report = review(tmp_path, [tmp_path / "train.py"], extra=[other_package("ESP499")])
    assert [claim.rule for claim in report.claims] == ["ESP499"]
    assert "ESP499" in report.rules
    assert "ESP499" not in review(tmp_path, [tmp_path / "train.py"]).rules


def test_two_rules_with_one_code_are_refused(other_package):
    with pytest.raises(DefinitionError, match="ESP101 is already used by gradients-not-cleared"):
        catalogue([other_package("ESP101")])


def test_a_rule_of_an_installed_package_is_found(other_package, tmp_path):
    other_package("ESP498")
    info = tmp_path / "house-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[esper_agents.rules]\nhouse = house_rules\n")
    code = "from esper_agents.review.catalogue import catalogue; print([rule.code for rule in catalogue()])"
    import os
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "ESP498" in shown.stdout


def test_rules_are_named_by_code_or_name_in_any_case():
    rules = catalogue()
    assert find("esp305", rules) is find("item-in-training-loop", rules) is find("ESP305", rules)


def test_a_rule_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(NotFoundError) as refused:
        review_sources({"a.py": "x = 1\n"}, rules=["ESP3O5"])
    assert "ESP305" in refused.value.remedy
    with pytest.raises(NotFoundError):
        explain("nothing-like-it")


def test_categories_and_names_narrow_the_rules_together():
    rules = catalogue()
    memory = select(rules, categories=[Category.MEMORY], names=None)
    assert {rule.category for rule in memory} == {Category.MEMORY}
    both = select(rules, categories=[Category.MEMORY], names=["ESP101", "ESP301"])
    assert [rule.code for rule in both] == ["ESP301"]
