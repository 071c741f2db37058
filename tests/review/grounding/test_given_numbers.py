"""Arithmetic of the code with the numbers of a question, and names that no code uses."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.grounding.given_numbers import given_numbers
from esper_agents.review.inspection import inspect_sources

STORAGE = """
class Storage:
    def __init__(self, num_envs, spare_rows=False):
        self.num_envs = num_envs
        self.spare_rows = spare_rows

    def batches(self, num_mini_batches):
        size = self.num_envs // num_mini_batches
        for step in range(num_mini_batches):
            yield step * size
"""


def leads(question: str) -> list[str]:
    report = inspect_sources({"storage.py": STORAGE}, InspectionSubject(question=question))
    return [fact.text for result in report.results if result.name == "question-answers" for fact in result.facts]


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("4 envs, num_mini_batches 8.", {("env",): 4.0, ("batch", "mini"): 8.0}),
        ("num_mini_batches=8 and num_envs: 4", {("env",): 4.0, ("batch", "mini"): 8.0}),
        ("margin=0.5", {("margin",): 0.5}),
    ],
)
def test_numbers_belong_to_the_names_beside_them(question, numbers):
    found = {
        tuple(sorted(terms & {"env", "batch", "mini", "margin"})): value
        for terms, value in given_numbers(question).items()
    }
    assert {terms: value for terms, value in found.items() if terms} == numbers


def test_a_measured_fraction_is_no_number_of_a_name():
    assert given_numbers("train loss 1.160 and 1.148") == {}


def test_a_size_that_becomes_zero_leads_the_answer():
    first = leads("why nan with 4 envs and num_mini_batches 8?")[0]
    assert first == "`Storage.batches` computes `self.num_envs // num_mini_batches`: with your numbers 4 // 8 = 0"


def test_a_usual_result_does_not_lead():
    assert not any("your numbers" in each for each in leads("what is done with 8 envs and num_mini_batches 4?"))


def test_a_division_by_a_given_zero_is_not_computed():
    assert not any("your numbers" in each for each in leads("what is done with 8 envs and num_mini_batches 0?"))


def test_a_setting_that_no_code_uses_leads_the_answer():
    assert any("uses `spare_rows` by its name" in each for each in leads("what does spare_rows do?"))


def test_a_setting_that_code_uses_is_not_called_unused():
    assert not any("by its name" in each for each in leads("what does num_envs do?"))
