"""Arguments of a call as source text: what can be written, what is omitted, and tensors with their shapes."""

from __future__ import annotations

import enum
from argparse import Namespace
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="no torch: NO call was recorded")

from esper_agents.torchlab.worker.scaffold.captured_arguments import ArgumentRecorder  # noqa: E402


class Mode(enum.Enum):
    FAST = 1


@dataclass
class Sizes:
    width: int
    mode: Mode


class Scaled(torch.nn.Module):
    def __init__(self, scale, *, sizes):
        super().__init__()
        self.scale, self.sizes = scale, sizes

    def forward(self, x, *others):  # noqa: ARG002 - only recorded
        return x * self.scale


class Child(Scaled):
    def __init__(self):
        super().__init__(9, sizes=None)


def function(x, *, options=None):
    return x


def recorded(go, callee, made_from=None):
    with ArgumentRecorder(made_from, callee) as watch:
        go()
    return watch


def texts(arguments):
    return {name: each.text for name, each in arguments.items()}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, [2.5, None], {"a": True}), "(1, [2.5, None], {'a': True})"),
        (Sizes(3, Mode.FAST), "Sizes(width=3, mode=Mode.FAST)"),
        (Namespace(lr=0.1, name="x"), "Settings(lr=0.1, name='x')"),
        (torch.nn.Linear(2, 3), "nn.Linear(in_features=2, out_features=3, bias=True)"),
        (torch.nn.ReLU, "nn.ReLU"),
        (torch.float16, "torch.float16"),
        ([torch.ones(1)], '[captured("call_options_0")]'),
    ],
)
def test_values_are_written_as_the_source_that_creates_them(value, text):
    first = recorded(lambda: function(torch.ones(2), options=value), function).first
    assert texts(first.call)["options"] == text


@pytest.mark.parametrize("value", [object(), float("nan"), lambda: 1, torch.optim.SGD([torch.ones(1)], lr=1.0), {1, 2}])
def test_a_value_without_source_is_omitted_by_name_and_type(value):
    first = recorded(lambda: function(1, options=value), function).first
    assert list(first.call) == ["x"]
    assert first.unwritten == {"options": type(value).__name__}


def test_the_constructor_of_the_called_object_is_found_and_not_that_of_another():
    def go():
        Child()
        Scaled(2, sizes=Sizes(1, Mode.FAST))
        Scaled(3, sizes=None)(torch.ones(2), torch.zeros(1))

    watch = recorded(go, Scaled.forward, Scaled)
    assert texts(watch.first.make) == {"scale": "3", "sizes": "None"}
    assert texts(watch.first.call) == {"x": 'captured("call_x")', "argument_2": 'captured("call_argument_2")'}
    assert (watch.seen, list(watch.shapes)) == (1, ["x (2,), argument_2 (1,)"])


def test_shapes_alone_give_synthetic_tensors_of_the_same_type_and_range():
    def go():
        function(torch.tensor([[3, 7]]), options=[torch.ones(2, dtype=torch.bool), torch.ones(1, dtype=torch.float64)])

    first = recorded(go, function).first.with_shapes()
    assert texts(first.call) == {
        "x": "torch.randint(3, 8, (1, 2))",
        "options": "[torch.ones((2,), dtype=torch.bool), torch.randn((1,), dtype=torch.float64)]",
    }
    assert first.tensors == {}


def test_saved_tensors_are_copies_of_the_moment_of_the_call():
    rows = torch.ones(2)
    first = recorded(lambda: function(rows), function).first
    rows.zero_()
    assert first.tensors["call_x"].tolist() == [1.0, 1.0]
