"""`esper rule` through the real entry point."""

from __future__ import annotations

import json

import pytest
from places import command

from esper_agents.review.catalogue import catalogue


@pytest.fixture
def esper(tmp_path):
    def run(*arguments):
        return command("rule", *arguments, cwd=tmp_path)

    return run


def test_without_a_code_all_rules_are_listed(esper):
    listed = esper()
    assert listed.returncode == 0
    assert all(rule.code in listed.stdout for rule in catalogue())


@pytest.mark.parametrize("name", ["ESP305", "esp305", "item-in-training-loop"])
def test_the_page_of_a_rule_is_printed_by_code_or_name(esper, name):
    page = esper(name)
    assert page.returncode == 0
    assert page.stdout.startswith("# ESP305 item-in-training-loop")
    assert "## When it is right" in page.stdout


def test_all_pages_are_written_to_a_file(esper, tmp_path):
    assert esper("--all", "--output", "rules.md").returncode == 0
    assert (tmp_path / "rules.md").read_text().startswith("# The rules")


def test_rules_are_printed_as_json_with_their_pages_if_one_is_named(esper):
    listed = json.loads(esper("--json").stdout)["rules"]
    (rule,) = json.loads(esper("ESP305", "--format", "json").stdout)["rules"]
    assert set(rule) == {*listed[0], "page", "bad", "good"}
    assert rule["page"] == esper("ESP305").stdout


def test_an_unknown_rule_is_refused_with_the_nearest_one(esper):
    done = esper("ESP3O5")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no rule named 'ESP3O5'" in done.stderr
    assert "'ESP305'" in done.stderr
    assert "run `esper rule`" in esper("nothing-like-it-at-all").stderr
