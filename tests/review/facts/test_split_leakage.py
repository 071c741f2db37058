"""Leakage between training and evaluation data: statistics of all rows, and splits that differ between runs."""

from __future__ import annotations

from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.inspection import inspect_sources

SOURCE = """
from torch.utils.data import random_split


def prepare(features):
    features = (features - features.mean(dim=0)) / features.std(dim=0)
    return random_split(features, [80, 20]{more})
"""


def facts(source):
    done = inspect_sources({"split.py": source}, InspectionSubject(("data leakage",)), names=["split-leakage"])
    return [(fact.line, str(fact.assessment), fact.rule, fact.text) for fact in done.results[0].facts]


def test_statistics_of_all_rows_before_a_split_answer_a_question_about_leakage():
    fitted, split = facts(SOURCE.format(more=""))
    assert fitted[:3] == (6, "must change", "ESP229")
    assert split[:2] == (7, "description")
    assert "without `generator`" in split[3]


def test_a_split_with_a_generator_is_the_same_in_each_run():
    *_, split = facts(SOURCE.format(more=", generator=g"))
    assert split[3] == "`random_split` splits rows at random"
