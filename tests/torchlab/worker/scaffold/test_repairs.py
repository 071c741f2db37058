"""Changes of arguments that an exception suggests."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="no torch: NO argument was searched")

from torch import nn  # noqa: E402 - wants torch

from esper_agents.torchlab.worker.scaffold.plan import LONG, CallPlan, Expression, TensorPlan  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.scaffold.repairs import named_setting, repairs  # noqa: E402 - wants torch

X = CallPlan((), (("x", TensorPlan((2, 64))),))


def raised(run):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any exception of torch
        run()
    return caught.value


def first(plan, error, stage="call"):
    return next(iter(repairs(plan, error, stage)))


def changes(plan, error, stage="call"):
    return list(repairs(plan, error, stage))


def test_a_product_with_another_width_changes_the_last_size():
    error = raised(lambda: nn.Linear(20, 3)(torch.randn(2, 64)))
    assert first(X, error).call == (("x", TensorPlan((2, 20))),)


def test_other_channels_change_the_second_size():
    plan = CallPlan((), (("x", TensorPlan((2, 3, 32, 32))),))
    error = raised(lambda: nn.Conv2d(5, 8, 3)(torch.randn(2, 3, 32, 32)))
    assert first(plan, error).call == (("x", TensorPlan((2, 5, 32, 32))),)


def test_a_missing_argument_is_added():
    def called(x, mask):
        """Take both."""

    error = raised(lambda: called(1))
    assert dict(first(X, error).call)["mask"].kind == "bool"


def test_an_index_of_the_wrong_type_becomes_integers():
    error = raised(lambda: nn.Embedding(10, 4)(torch.randn(2, 64)))
    assert first(X, error).call[0][1].kind == LONG


def test_an_index_out_of_range_gets_a_smaller_bound():
    plan = CallPlan((), (("x", TensorPlan((2, 16), LONG, 100)),))
    error = raised(lambda: nn.Embedding(10, 4)(torch.full((2, 16), 50)))
    assert first(plan, error).call[0][1].high == 25


def test_sizes_that_do_not_match_are_made_equal():
    plan = CallPlan((), (("x", TensorPlan((2, 64))), ("y", TensorPlan((2, 16)))))
    error = raised(lambda: torch.randn(2, 64) + torch.randn(2, 16))
    assert (("x", TensorPlan((2, 16))), ("y", TensorPlan((2, 16)))) in [change.call for change in changes(plan, error)]


def test_one_of_the_options_that_a_message_lists_is_tried():
    plan = CallPlan((("mode", Expression('"mean"')),))
    error = ValueError("mode must be one of 'linear' or 'cubic'")
    tried = [dict(change.make)["mode"].text for change in changes(plan, error, "make")]
    assert tried[:2] == ['"linear"', '"cubic"']


def test_a_size_that_must_be_divisible_is_rounded():
    plan = CallPlan((("dim", Expression("65")), ("heads", Expression("4"))))
    error = ValueError("dim must be divisible by heads")
    assert dict(first(plan, error, "make").make) == {"dim": Expression("64"), "heads": Expression("4")}


def test_a_tensor_is_tried_for_a_number_whose_shape_is_read():
    plan = CallPlan((), (("weight_map", Expression("0.5")),))
    error = raised(lambda: (0.5).shape)
    assert any(isinstance(dict(change.call)["weight_map"], TensorPlan) for change in changes(plan, error))


def test_a_missing_setting_is_named():
    error = AttributeError("'Settings' object has no attribute 'n_embd'")
    assert named_setting(error) == "n_embd"
    assert not named_setting(AttributeError("'Net' object has no attribute 'n_embd'"))
