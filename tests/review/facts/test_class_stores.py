"""Tests of the containers that objects of a named class fill."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.inspection import inspect_sources

CLASS = (
    "from collections import deque\n\n\nclass Buffer:\n    def __init__(self, capacity={default}):\n"
    "        self.memory = {made}\n\n    def add(self, item):\n        self.memory.append(item)\n{more}"
)


def told(made, default="None", more=""):
    source = CLASS.format(made=made, default=default, more=more)
    subject = InspectionSubject(("memory growth",), symbols=("a.py:Buffer",))
    done = inspect_sources({"a.py": source}, subject, names=["class-stores"])
    return [(str(fact.assessment), fact.text) for fact in done.results[0].facts]


@pytest.mark.parametrize(
    ("made", "default", "assessment", "words"),
    [
        ("[]", "None", "should check", "nothing in `Buffer` removes one"),
        ("deque(maxlen=capacity)", "None", "should check", "whose default is None: then it keeps all of them"),
        ("deque([], capacity)", "1000", "open", "keeps up to `capacity` (default 1000) entries"),
        ("deque(maxlen=4)", "None", "fine", "keeps up to `4` entries"),
    ],
)
def test_what_bounds_a_container_is_told_with_its_default(made, default, assessment, words):
    ((found, text),) = told(made, default)
    assert found == assessment
    assert words in text


@pytest.mark.parametrize(
    "more",
    [
        "\n    def take(self):\n        return self.memory.pop()\n",
        "\n    def reset(self):\n        self.memory = []\n",
        "\n    def trim(self):\n        self.memory = self.memory[-10:]\n",
        "\n    def drop(self):\n        del self.memory[0]\n",
    ],
)
def test_a_container_that_is_emptied_or_cut_is_not_told(more):
    assert told("[]", more=more) == []


def test_a_container_that_a_file_replaces_is_not_emptied_by_that():
    more = "\n    def load(self, file):\n        self.memory = read(file)\n"
    assert len(told("[]", more=more)) == 1


def test_an_item_that_is_set_adds_to_a_dictionary_and_not_to_a_list():
    more = "\n    def put(self, key, item):\n        self.other[key] = item\n"
    assert len(told("deque(maxlen=2)\n        self.other = {}", more=more)) == 2
    assert len(told("deque(maxlen=2)\n        self.other = [None] * 8", more=more)) == 1


def test_a_container_that_only_a_loading_method_replaces_is_not_emptied():
    more = "\n    def load(self, file):\n        self.memory = []\n"
    assert len(told("[]", more=more)) == 1


def test_an_item_that_is_begun_anew_adds_nothing():
    more = "\n    def begin(self, key):\n        self.other[key] = []\n"
    assert len(told("deque(maxlen=2)\n        self.other = {}", more=more)) == 1


def test_a_bound_that_the_request_gives_is_not_at_its_default():
    source = CLASS.format(made="deque(maxlen=capacity)", default="None", more="")
    subject = InspectionSubject(("memory growth",), symbols=("a.py:Buffer",), sizes=("capacity=100000",))
    (fact,) = inspect_sources({"a.py": source}, subject, names=["class-stores"]).results[0].facts
    assert "keeps up to `capacity`" in fact.text
