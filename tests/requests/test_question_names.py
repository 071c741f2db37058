"""Names that the words of a question mean, found in the text of a project."""

from __future__ import annotations

import time

import pytest

from esper_agents.domain.request import Wish
from esper_agents.requests.parsing import parse_request
from esper_agents.requests.question_names import question_names

CODE = """
import argparse


class GhostNorm:
    def __init__(self, rows, ghost_rows=128, wd=0.0):
        self.ghost_rows = ghost_rows
        self.state = {"best_score": 0}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accum-freq", type=int, default=1)
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "norm.py").write_text(CODE)
    return tmp_path


@pytest.mark.parametrize(
    ("question", "words", "kind", "name"),
    [
        ("what do the ghost rows do?", "ghost rows", "attribute", "ghost_rows"),
        ("how does ghost norm work", "ghost norm", "class", "GhostNorm"),
        ("what is weight decay for here?", "weight decay", "parameter", "wd"),
        ("what does accum freq do?", "accum freq", "option", "accum-freq"),
        ("what is the best score for?", "best score", "name", "best_score"),
    ],
)
def test_words_mean_a_name_of_the_project(root, question, words, kind, name):
    found = question_names(root, question)[0]
    assert (found.words, found.kind, found.name, found.path) == (words, kind, name, "norm.py")
    assert name in CODE.split("\n")[found.line - 1]


def test_a_concept_is_recorded_without_a_place(root):
    assert ("concept", "half precision", "") in {
        (each.kind, each.name, each.path) for each in question_names(root, "does it support fp16?")
    }


@pytest.mark.parametrize("request_", ["review the ghost rows", "write a test for ghost rows", "ghost rows", "🙂?", ""])
def test_what_is_no_question_about_code_grounds_nothing(root, request_):
    assert question_names(root, request_) == ()


def test_a_parsed_question_has_the_names_and_a_request_for_a_text_has_none(root):
    assert parse_request("what do the ghost rows do?", root).grounded
    assert parse_request("what do the ghost rows do?").grounded == ()
    written = parse_request("write a test for the ghost rows?", root)
    assert (written.wish, written.grounded) == (Wish.WRITE, ())


def test_many_words_and_long_texts_are_bounded(root):
    (root / "long.py").write_text("x_" * 400_000 + " = 1\n")
    begin = time.process_time()
    question_names(root, "how does " + " ".join(f"word{number} thing" for number in range(3_000)) + " work?")
    assert time.process_time() - begin < 10
