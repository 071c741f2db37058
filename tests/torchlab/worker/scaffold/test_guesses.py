"""First guesses of arguments, from annotations, documentation and names."""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="no torch: NO argument was searched")

from torch import nn  # noqa: E402 - wants torch

from esper_agents.torchlab.worker.scaffold.guesses import by_name, first_layer_shape, guessed  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.scaffold.plan import BOOL, LONG, TensorPlan  # noqa: E402 - wants torch


class Mode(enum.Enum):
    FAST = 1


@dataclass
class Config:
    hidden_dim: int
    mode: Mode
    depth: int = 3


def texts(thing):
    return {name: each.text for name, each in guessed(thing)}


def test_only_required_parameters_are_guessed():
    def called(x, num_heads, eps=1e-6, *rest, **more):
        """Take some."""

    assert list(texts(called)) == ["x", "num_heads"]


def test_an_annotation_decides_before_the_name():
    def called(x: int, gamma: float, mode: Mode, labels: torch.Tensor, *, flag: bool):
        """Take some."""

    assert texts(called) == {
        "x": "4",
        "gamma": "0.5",
        "mode": "Mode.FAST",
        "flag": "False",
        "labels": "torch.randint(0, 10, (2,))",
    }


def test_a_configuration_object_is_constructed_from_its_own_annotations_and_imported():
    def called(config: Config):
        """Take one."""

    ((_, argument),) = guessed(called)
    assert argument.text == "Config(hidden_dim=64, mode=Mode.FAST)"
    assert set(argument.imports) == {(__name__, "Config"), (__name__, "Mode")}


def test_a_list_of_tensors_is_a_list_whose_shapes_can_be_changed():
    def called(features: list[torch.Tensor]):
        """Take some."""

    ((_, argument),) = guessed(called)
    assert isinstance(argument, TensorPlan)
    assert argument.text == "[torch.randn((2, 64)), torch.randn((2, 64))]"


def test_the_documented_shape_of_a_parameter_is_used():
    def called(x, hidden):
        """Take some.

        Args:
            x: Input of shape (B, C, H, W).
            hidden: (N, 7, 5) tensor.
        """

    assert texts(called) == {"x": "torch.randn((2, 3, 32, 32))", "hidden": "torch.randn((2, 7, 5))"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("num_classes", "10"), ("in_channels", "16"), ("dropout", "0.1"), ("cfg", "Settings()"), ("use_bias", "False")],
)
def test_a_name_decides_without_an_annotation(name, text):
    assert by_name(name).text == text


def test_masks_are_boolean_and_tokens_are_integers():
    def called(input_ids, attention_mask):
        """Take some."""

    kinds = {name: each.kind for name, each in guessed(called)}
    assert kinds == {"input_ids": LONG, "attention_mask": BOOL}


@pytest.mark.parametrize(
    ("module", "plan"),
    [
        (nn.Sequential(nn.ReLU(), nn.Conv2d(5, 8, 3)), TensorPlan((2, 5, 32, 32))),
        (nn.Embedding(50, 8), TensorPlan((2, 16), LONG, 50)),
        (nn.LSTM(7, 8), TensorPlan((2, 16, 7))),
        (nn.ReLU(), None),
    ],
)
def test_the_first_layer_decides_the_shape_of_the_input(module, plan):
    assert first_layer_shape(module) == plan


def test_annotations_that_cannot_be_evaluated_leave_the_names():
    def called(x, num_heads):
        """Take some."""

    called.__annotations__ = {"x": "Absent[int]", "num_heads": "Absent"}
    assert texts(called) == {"x": "torch.randn((2, 64))", "num_heads": "4"}
    assert inspect.signature(called).parameters
