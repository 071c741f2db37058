"""Answers to questions from the code of a project."""

from __future__ import annotations

import time

import pytest

from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.grounding.saying import quoted
from esper_agents.review.inspection import inspect_sources

NORM = '''
import numpy as np
import torch
from torch import nn


class GhostNorm(nn.Module):
    """Normalise pieces of a batch.

    Args:
        rows: Number of columns of the input.
        ghost_rows: Number of rows that one set of statistics is computed over.
    """

    def __init__(self, rows, ghost_rows=128):
        super().__init__()
        self.ghost_rows = ghost_rows
        self.bn = nn.BatchNorm1d(rows)

    def forward(self, x):
        pieces = x.chunk(int(np.ceil(x.shape[0] / self.ghost_rows)), 0)
        normed = [self.bn(each) for each in pieces]
        return torch.cat(normed, dim=0)


class Net(nn.Module):
    def __init__(self, ghost_rows=128):
        super().__init__()
        self.norm = GhostNorm(8, ghost_rows=ghost_rows)

    def forward(self, x):
        return self.norm(x)
'''
OPTIMIZER = """
import torch


def update_fn(p, grad, exp_avg, lr, wd, beta):
    p.data.mul_(1. - lr * wd)
    p.add_(exp_avg.lerp(grad, 1 - beta).sign(), alpha=-lr)


def fast_update_fn(p, grad):
    assert all([t.is_cuda for t in (p, grad)])


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, weight_decay=0.0, use_triton=False):
        assert lr > 0.
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay))
        self.update_fn = fast_update_fn if use_triton else update_fn
"""
SOURCES = {"norm.py": NORM, "optimizer.py": OPTIMIZER}


def answered(question, sources=None):
    done = inspect_sources(sources or SOURCES, InspectionSubject(question=question))
    return {result.name: [f"{fact.path}:{fact.line} {fact.text}" for fact in result.facts] for result in done.results}


def first(question, sources=None):
    return answered(question, sources)["question-answers"][0]


def test_a_parameter_in_words_is_followed_to_the_operation_that_decides():
    found = answered("what do the ghost rows do and what happens if the batch isnt divisible by it")
    assert "norm.py:21 `GhostNorm.forward`" in found["question-answers"][0]
    assert "only the last piece is smaller" in found["question-answers"][0]
    details = " ".join(found["question-details"])
    assert "normed = [self.bn(each) for each in pieces]" in details
    assert "the default of `ghost_rows` is `128`" in details
    assert "Number of rows that one set of statistics is computed over" in details
    assert "passed on in `Net`" in details


def test_a_question_for_a_default_is_answered_by_it():
    assert "the default of `use_triton` is `False` in `Lion`" in first("what is the default of use_triton?")


def test_each_part_of_a_question_has_its_line():
    leads = answered("is the weight decay decoupled? also do assertions fail when params are on cpu?")[
        "question-answers"
    ]
    assert "optimizer.py:6" in leads[0]
    assert "as in AdamW" in leads[0]
    assert "optimizer.py:11" in leads[1]
    assert "tensors on the CPU fail here" in leads[1]


def test_a_question_about_an_allowed_value_is_answered_by_the_check():
    assert "unless `lr > 0.0`" in first("is lr allowed to be 0?")


def test_what_no_line_does_is_said():
    assert "no line of the 2 files that were read clips gradients" in first("does Lion do gradient clipping?")


def test_two_questions_about_one_project_have_different_answers():
    questions = ("what do the ghost rows do?", "is lr allowed to be 0?", "is the weight decay decoupled?")
    assert len({first(question) for question in questions}) == len(questions)


def test_a_typing_error_does_not_hide_a_name():
    assert "GhostNorm.forward" in first("what do the ghsot rows do if not divisible?")


@pytest.mark.parametrize("question", ["", "?", "what does it do?", "zebra elephants?", "日本語の質問"])
def test_a_question_that_names_nothing_has_no_answer(question):
    if question:
        assert answered(question)["question-answers"] == []


def test_conditions_are_part_of_the_answer():
    source = (
        "def load(state, strict):\n    if strict:\n        keys = set(state)\n"
        "    else:\n        keys = state.keys()\n    return keys\n"
    )
    found = answered("which keys are used when not strict?", {"load.py": source})
    assert "keys = state.keys()`, unless `strict`" in " ".join(text for texts in found.values() for text in texts)


def test_text_of_the_project_is_quoted_on_one_line():
    source = 'def limit(rows):\n    if rows > 5:\n        raise ValueError("`rows`\\x1b[31m is\\n too large")\n'
    text = first("what happens if rows is too large?", {"limit.py": source})
    assert "\x1b" not in text
    assert "\n" not in text


def test_hostile_sources_are_bounded():
    deep = "x = " + "(" * 60 + "1" + ")" * 60
    long = "def f(rows):\n" + "".join(f"    rows_{number} = rows + {number}\n" for number in range(20_000))
    begin = time.process_time()
    assert answered("what do the rows do?", {"deep.py": deep, "long.py": long}) is not None
    assert time.process_time() - begin < 30


def test_a_definition_that_is_written_is_answered_by_its_own_lines_only():
    net = "class Net:\n    def forward(self, x):\n        return shrink(x)\ndef shrink(batch):\n    return batch[:1]\n"
    loader = "class Loader:\n    def batch_of_one(self, batch_size=1):\n        return self.rows[:batch_size]\n"
    found = answered("what does Net do with a batch size of 1?", {"net.py": net, "other.py": loader})
    assert not [fact for facts in found.values() for fact in facts if fact.startswith("other.py")]
    found = answered("what does Loader do with a batch size of 1?", {"net.py": net, "other.py": loader})
    assert [fact for facts in found.values() for fact in facts if fact.startswith("other.py")]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("torch.zeros(x.shape + (n,), dtype=d)", "`torch.zeros(x.shape + (n,), dtype=d)`"),
        ("f(a,\n  b,\n)", "`f(a, b)`"),
        ("[1, 2, ]", "`[1, 2]`"),
    ],
)
def test_a_quotation_keeps_the_comma_of_a_tuple_of_one_element(code, shown):
    assert quoted(code) == shown


def test_a_method_of_the_project_is_not_called_unused():
    net = "class Flow:\n    def backward(self, x):\n        return x\n"
    found = answered("is calling loss.backward() enough for Flow?", {"flow.py": net})
    assert not [fact for facts in found.values() for fact in facts if "no line" in fact and "`backward`" in fact]
