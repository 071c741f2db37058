"""The operator table and its shape rules against the installed torch."""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path

import pytest

from esper_agents.review.model.knowledge import DeviceEffect, Effect, GraphEffect, ResultKind
from esper_agents.review.model.operators import SHAPE_RULES, names, operator, operator_facts, torch_version
from esper_agents.review.model.shape_rules import UNKNOWN, Shape, ShapeMismatchError

CHECKS = Path(__file__).parents[3] / "checks"


@pytest.fixture
def checks(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return import_module


def of_this_torch():
    torch = pytest.importorskip("torch")
    if torch.__version__.partition("+")[0] != torch_version():
        pytest.skip(f"the table was made with torch {torch_version()}")
    return torch


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_shape_rules_predict_random_calls_on_the_meta_device(checks):
    torch = of_this_torch()
    probes, sampling = checks("operator_probes"), checks("operator_samples")
    tried, wrong = set(), []
    for name in sorted(names()):
        space, _, last = name.removeprefix("torch.").rpartition(".")
        holder = torch
        for part in filter(None, space.split(".")):
            holder = getattr(holder, part)
        for overload in operator(name).overloads:
            if overload.shape not in sampling.SAMPLERS:
                continue
            # Other samples than those from which the table was made.
            chance = random.Random(f"{name} again")  # noqa: S311 - samples are no secrets
            for call in sampling.samples(overload.shape, overload, chance, 3):
                try:
                    result = call.run(getattr(holder, last), sampling.meta())
                except Exception:  # noqa: BLE001, S112 - what torch refuses shows no shape
                    continue
                tried.add(name)
                if not probes.predicts(overload.shape, call, result):
                    wrong.append((name, overload.shape, call.arguments, probes.shape_of(result)))
    assert not wrong
    assert len(tried) > 600


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_the_table_follows_from_the_installed_torch(checks):
    of_this_torch()
    table = checks("operator_table")
    assert table.document() == table.FILE.read_text(), "run `python checks/operator_table.py`"


def test_every_shape_rule_of_the_table_exists():
    used = {overload.shape for name in names() for overload in operator(name).overloads}
    assert used - {""} <= set(SHAPE_RULES)
    assert {"same", "broadcast", "reduce", "matmul", "cat", "convolution", "class loss"} <= used


@pytest.mark.parametrize(
    ("name", "positional", "named", "shape"),
    [
        ("torch.Tensor.view", [Shape((2, 6)), 3, -1], {}, (3, 4)),
        ("torch.Tensor.view", [Shape((2, "B")), 3, -1], {}, (3, None)),
        ("torch.Tensor.permute", [Shape(("B", 3, 5)), 0, 2, 1], {}, ("B", 5, 3)),
        ("torch.sum", [Shape(("B", 3))], {"dim": 1}, ("B",)),
        ("torch.sum", [Shape(("B", 3))], {"axis": 0, "keepdims": True}, (1, 3)),
        ("torch.Tensor.max", [Shape((2, 3)), 1], {}, (2,)),
        ("torch.Tensor.max", [Shape((2, 1)), Shape((3,))], {}, (2, 3)),
        ("torch.cat", [[Shape(("B", 3)), Shape(("B", 4))], 1], {}, ("B", 7)),
        ("torch.zeros", [2, "B"], {"requires_grad": True}, (2, "B")),
        ("torch.matmul", [Shape(("B", 2, 3)), Shape((3, 5))], {}, ("B", 2, 5)),
        ("torch.nn.functional.linear", [Shape(("B", 3)), Shape((5, 3))], {}, ("B", 5)),
        ("torch.nn.functional.cross_entropy", [Shape((4, 10)), Shape((4,))], {}, ()),
        ("torch.nn.functional.cross_entropy", [Shape((4, 10)), Shape((4,))], {"reduction": "none"}, (4,)),
        ("torch.einsum", ["bij,bjk->bik", Shape(("B", 2, 3)), Shape(("B", 3, 5))], {}, ("B", 2, 5)),
    ],
)
def test_the_shape_of_a_call_follows_from_its_arguments(name, positional, named, shape):
    assert operator(name).result_shape(positional, named) == shape


def test_an_argument_that_is_not_known_leaves_the_shape_unknown():
    assert operator("torch.add").result_shape([Shape((2, 3)), UNKNOWN]) is None
    assert operator("torch.sum").result_shape([Shape((2, 3)), UNKNOWN]) is None


@pytest.mark.parametrize(
    ("name", "positional"),
    [
        ("torch.matmul", [Shape((2, 3)), Shape((4, 5))]),
        ("torch.add", [Shape((2, 3)), Shape((2,))]),
        ("torch.Tensor.view", [Shape((2, 3)), 4, 2]),
        ("torch.nn.functional.conv2d", [Shape((1, 3, 8, 8)), Shape((4, 5, 3, 3))]),
        ("torch.nn.functional.cross_entropy", [Shape((4, 10)), Shape((5,))]),
    ],
)
def test_sizes_that_torch_refuses_are_a_mismatch(name, positional):
    with pytest.raises(ShapeMismatchError):
        operator(name).result_shape(positional)


def test_facts_of_operators():
    assert operator_facts("torch.Tensor.add_").writes == (-1,)
    assert operator_facts("torch.Tensor.nonzero").effects == {Effect.FETCH}
    assert operator_facts("torch.Tensor.detach").graph is GraphEffect.CUTS
    assert operator_facts("torch.argmax").graph is GraphEffect.CUTS
    assert operator_facts("torch.relu").graph is GraphEffect.KEEPS
    assert operator_facts("torch.where").effects == frozenset()
    assert operator_facts("torch.where").graph is GraphEffect.KEEPS
    assert operator_facts("torch.zeros").device is DeviceEffect.ARGUMENT
    assert operator_facts("torch.Tensor.chunk").result is ResultKind.TENSOR
    assert operator("torch.Tensor.chunk").result == "tensors"
    assert operator("torch.Tensor.reshape").alias == "sometimes"
    assert operator("torch.Tensor.transpose").alias == "always"
    assert operator("torch.Tensor.add").alias == ""
    assert operator("torch.nn.functional.nll_loss").needs == (("input", "log probability"),)
    assert operator_facts("torch.no_such_function") is None
