"""Tests of `esper_agents.requests.usage_questions`."""

from __future__ import annotations

import pytest

from esper_agents.domain.request import UsageReference
from esper_agents.requests.parsing import parse_request


@pytest.mark.parametrize(
    ("request_text", "name", "line"),
    [
        ("do I really need retain_graph=True here?", "retain-graph", 0),
        ("why the detach in line 80?", "detach", 80),
        ("warum das detach in Zeile 12?", "detach", 12),
        ("`.sample()` or `.rsample()`?", "sample-rsample", 0),
        ("should it be eval() or no_grad()", "eval-or-no-grad", 0),
        ("is view the same as reshape here?", "view-reshape", 0),
    ],
)
def test_a_direct_question_names_its_api_and_its_line(request_text, name, line) -> None:
    (usage,) = parse_request(request_text).usages
    assert (usage.name, usage.line) == (name, line)


@pytest.mark.parametrize(
    "request_text",
    [
        "review train.py",
        "memory grows every epoch, is it the missing detach?",
        "is this branch safe to merge? it removes a detach",
        "add a detach to the target",
        "profile the training step",
        "RuntimeError: Trying to backward through the graph a second time. Specify retain_graph=True",
    ],
)
def test_a_request_for_something_else_that_names_an_api_is_no_question_about_it(request_text) -> None:
    assert parse_request(request_text).usages == ()


def test_a_line_beside_its_file_is_taken_from_the_file(tmp_path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    (usage,) = parse_request("is the clone in train.py:1 needed", tmp_path).usages
    assert usage == UsageReference("clone", "clone", 1)
