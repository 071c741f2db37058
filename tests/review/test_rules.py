"""Every rule finds its own bad example, leaves its good one alone, and has a whole page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from esper_agents.domain.finding import Category, Severity
from esper_agents.review import rules as folder
from esper_agents.review.catalogue import catalogue
from esper_agents.review.engine import explain, review_sources
from esper_agents.review.rule import as_files

RULES = catalogue()
HUNDREDS = {
    "0": Category.CORRECTNESS,
    "1": Category.CORRECTNESS,
    "2": Category.SILENT_CORRECTNESS,
    "3": Category.MEMORY,
    "4": Category.PERFORMANCE,
    "5": Category.COMPILE,
    "7": Category.COMPANION,
    "9": Category.SECURITY,
}
each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])


@each_rule
def test_the_bad_example_fires_this_rule_and_no_other(rule):
    report = review_sources(as_files(rule.bad))
    assert not report.unreadable
    assert {claim.rule for claim in report.claims} == {rule.code}


@each_rule
def test_the_good_example_is_left_alone_by_this_rule(rule):
    report = review_sources(as_files(rule.good), rules=[rule.code])
    assert not report.unreadable
    assert report.claims == ()


@each_rule
def test_the_good_example_has_nothing_critical(rule):
    claims = review_sources(as_files(rule.good)).claims
    assert [claim for claim in claims if claim.severity is Severity.CRITICAL] == []


@each_rule
def test_the_page_says_why_when_not_and_from_where(rule):
    page = explain(rule.code)
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings == ["Why it costs", "When it is right", "Sources", "Bad", "Good"]
    assert page.startswith(f"# {rule.code} {rule.name}\n")
    assert len(inspect.getdoc(type(rule)).splitlines()[0]) > 20


@each_rule
def test_code_name_and_category_belong_together(rule):
    assert re.fullmatch(r"ESP\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert HUNDREDS[rule.code[3]] is rule.category


@each_rule
def test_what_it_claims_is_one_plain_sentence_with_a_remedy(rule):
    for claim in review_sources(as_files(rule.bad)).claims:
        for text in (claim.message, claim.remedy):
            assert text
            assert "\n" not in text
            assert not text.endswith(".")
        assert claim.basis


def test_syncs_and_style_are_never_critical():
    critical = {rule.category for rule in RULES if rule.severity is Severity.CRITICAL}
    assert Category.MEMORY not in critical
    assert Category.PERFORMANCE not in critical


def test_every_part_of_the_checklist_has_two_rules():
    parts = (Category.CORRECTNESS, Category.SILENT_CORRECTNESS, Category.MEMORY, Category.PERFORMANCE, Category.COMPILE)
    for part in (*parts, Category.SECURITY):
        assert len([rule for rule in RULES if rule.category is part]) >= 2


def test_every_file_in_the_folder_holds_one_rule():
    files = {path.stem for path in Path(folder.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == {type(rule).__module__.rpartition(".")[2] for rule in RULES}
    assert len(files) == len(RULES)
