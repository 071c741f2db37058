"""What operations do, run with torch, and the concepts that questions ask about."""

from __future__ import annotations

import pytest

from esper_agents.review.grounding.catalogue import concepts, concepts_asked, operations, operations_in


@pytest.mark.parametrize("operation", [each for each in operations() if each.check], ids=lambda each: each.name)
def test_what_an_operation_does_holds_when_it_runs(operation):
    torch = pytest.importorskip("torch")
    exec(operation.check, {"torch": torch})  # noqa: S102 - code of the catalogue


def test_each_operation_has_a_check_or_a_source_and_fills_its_sentence():
    for operation in operations():
        assert operation.check or operation.source.startswith("https://"), operation.name
        groups = dict.fromkeys(operation.pattern.groupindex, "x")
        assert "{" not in operation.does.format(**groups), operation.name
        assert not operation.does.endswith(".")


def test_concepts_that_operations_name_exist():
    names = {concept.name for concept in concepts()}
    assert {name for operation in operations() for name in operation.concepts} <= names


def test_a_statement_is_explained_by_its_operations():
    (says,) = operations_in("p.data.mul_(1. - lr * wd)")
    assert "`1 - lr * wd`" in says
    assert "decoupled" in says
    assert not operations_in("x = y")


def test_a_quiet_operation_is_said_only_to_a_question_about_it():
    assert not operations_in("kept = p.clone()")
    assert "allocates a copy" in operations_in("kept = p.clone()", asked={"memory"})[0]


@pytest.mark.parametrize(
    ("question", "concept"),
    [
        ("what if the batch isn't divisible", "divisibility"),
        ("does it run in fp16", "half precision"),
        ("are grads clipped, gradient clipping i mean", "gradient clipping"),
        ("resume from a checkpoint", "saved state"),
    ],
)
def test_words_ask_about_a_concept(question, concept):
    assert concept in {found.name for found, _ in concepts_asked(question)}


@pytest.mark.parametrize(
    "statement",
    [
        "shadow.mul_(1 - self.decay)",
        "assert not x.is_cuda",
        "best = min(runs, key=score)",
        "features = torch.distributed.nn.all_gather(x)",
        "words = line.split()",
        "WeightedRandomSampler(weights, 4, replacement=False)",
    ],
)
def test_a_form_that_means_something_else_is_not_explained(statement):
    assert not operations_in(statement, asked={"distributed training", "divisibility"})
