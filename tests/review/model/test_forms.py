"""Tests that the model follows values through the forms in which programs are written, each with a right twin."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import review_cases

FORMS = sorted((review_cases.FOLDER / "forms").glob("*.py"))
RIGHT = sorted(path for word in ("kept", "gradients") for path in (review_cases.FOLDER / "clean").glob(f"{word}_*.py"))


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.stem)
def test_the_fault_is_found_through_the_form_and_its_twin_is_silent(case):
    outcome = review_cases.judge(case)
    assert outcome.has_defect is not case.stem.endswith("_clean")
    assert not outcome.missed
    assert not outcome.wrong


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.stem)
def test_what_only_looks_like_a_fault_is_silent(case):
    outcome = review_cases.judge(case)
    assert not outcome.has_defect
    assert not outcome.wrong
