"""Tests of the fact queries: what each reports about its own examples."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from esper_agents.paths import data_folder
from esper_agents.review.catalogue import catalogue
from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import fact_queries, inspect_sources
from esper_agents.review.rule import example_files

QUERIES = fact_queries()
TELLING = frozenset(Assessment) - {Assessment.FINE}


def subject(query):
    return query.asked or InspectionSubject(query.topics[:1], query.wishes[0] if query.wishes else None)


def facts(query, example):
    done = inspect_sources(example_files(example), subject(query), names=[query.name])
    assert [result.problem for result in done.results] == [""]
    return done.results[0].facts


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: each.name)
def test_a_query_reports_its_bad_example_and_nothing_to_change_in_its_good_one(query):
    bad, good = facts(query, query.bad), facts(query, query.good)
    assert {each.assessment for each in bad} & TELLING
    assert not [each for each in good if each.assessment is Assessment.MUST_CHANGE]
    if query.claim:
        assert {each.assessment for each in bad} - {Assessment.DESCRIPTION}


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: each.name)
def test_a_query_belongs_to_topics_of_requests_and_to_rules_that_exist(query):
    words = tomllib.loads((data_folder("prompts") / "request_words.toml").read_text(encoding="utf-8"))
    assert set(query.topics) <= words["topics"].keys()
    assert query.topics or query.wishes or (query.asked is not None and (query.asked.usages or query.asked.question))
    assert set(query.rules) <= {each.code for each in catalogue()}
    assert (type(query).__doc__ or "").strip()
    assert Path(f"esper_agents/review/facts/{query.name.replace('-', '_')}.py").name == (
        type(query).__module__.rpartition(".")[2] + ".py"
    )


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: each.name)
def test_what_a_query_says_is_one_sentence_at_a_line_of_the_file(query):
    sources = example_files(query.bad)
    for fact in facts(query, query.bad):
        assert 1 <= fact.line <= sources[fact.path].count("\n") + 1
        assert "\n" not in fact.text
        assert not fact.text.endswith(".")
        assert len(fact.text) <= 300


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: each.name)
def test_a_query_says_nothing_of_a_file_without_its_subject(query):
    empty = inspect_sources({"train.py": "def add(a, b):\n    return a + b\n"}, subject(query), names=[query.name])
    assert not [fact for fact in empty.results[0].facts if fact.assessment is Assessment.MUST_CHANGE]
