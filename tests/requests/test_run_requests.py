"""Requests to run tests are told from those that only mention tests."""

from __future__ import annotations

import pytest

from esper_agents.requests.run_requests import asks_to_run_tests, named_test_files

FILES = ["tests/test_losses.py", "tests/test_data_metrics.py", "tests/test_train.py"]


@pytest.mark.parametrize(
    ("request_text", "named"),
    [
        ("run the tests of the losses and tell me whether they pass", FILES[:1]),
        ("Please run all tests, and tell me the result.", []),
        ("run the loss tests", FILES[:1]),
        ("run tests/test_train.py", FILES[2:]),
        ("can you run the tests for train.py?", FILES[2:]),
        ("execute the unit tests for the data set and report the result", FILES[1:2]),
        ("do the tests of the losses still pass?", FILES[:1]),
        ("tell me whether the tests pass", []),
        ("run pytest", []),
    ],
)
def test_a_request_to_run_tests_names_their_files(request_text, named):
    assert asks_to_run_tests(request_text)
    assert named_test_files(request_text, FILES) == named


@pytest.mark.parametrize(
    "request_text",
    [
        "review the model and run its tests",
        "run the tests on every push",
        "run the slow tests only at night",
        "did they run the tests",
        "write tests for the tokenizer",
        "run the tests and fix the loss",
        "The report says all 212 tests pass. Did they?",
        "the runner has no GPU, how do we run the CUDA tests",
        "run the model",
    ],
)
def test_a_request_for_anything_else_is_none(request_text):
    assert not asks_to_run_tests(request_text)
    assert named_test_files(request_text, FILES) == []
