"""Cases of ESP296: parameters that no group of an optimizer takes."""

from __future__ import annotations

import pytest

MAKE = """
import torch


def make(model, wd, matrices):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        {first}
            decay.append(p)
        {second}
            rest.append(p)
    {after}
    groups = [{{"params": decay, "weight_decay": wd}}, {{"params": rest, "weight_decay": 0.0}}]
    return torch.optim.AdamW(groups, lr=1e-3)
"""
DROPPING = [
    ('if name.endswith(".weight") and p.ndim > 1:', 'elif name.endswith(".bias"):'),
    ('if "weight" in name and p.dim() >= 2:', 'elif "bias" in name:'),
    ("if len(p.shape) > 1:", 'elif name.endswith("bias"):'),
    ('if "weight" in name and "norm" not in name:', 'elif "bias" in name:'),
    ('if name.endswith("weight") and not "norm" in name:', 'elif name.endswith(("bias", "scale")):'),
    ("if p.ndim == 2:", 'if "norm" in name and "bias" in name:'),
]
WHOLE = [
    ('if name.endswith(".weight") and p.ndim > 1:', "else:"),
    ("if p.ndim > 1:", "elif p.ndim <= 1:"),
    ('if name.endswith("weight"):', 'elif name.endswith("bias"):'),
    ('if "weight" in name and "norm" not in name:', 'elif "bias" in name or "norm" in name:'),
    ('if not name.endswith(("bias", "norm.weight")):', 'if name.endswith(("bias", "norm.weight")):'),
    ("if isinstance(p, matrices):", 'elif name.endswith("bias"):'),
    ("if name in matrices:", 'elif name.endswith("bias"):'),
    ('if name.startswith("head"):', 'elif name.startswith("adapter"):'),
]


@pytest.mark.parametrize(("first", "second"), DROPPING)
def test_usual_parameters_that_match_no_arm_are_reported(found, first, second):
    last = first if second.startswith("elif") else second
    assert found("ESP296", MAKE.format(first=first, second=second, after="pass")) == [last]


@pytest.mark.parametrize(("first", "second"), WHOLE)
def test_arms_that_take_all_or_cannot_be_worked_out_are_left_alone(found, first, second):
    assert found("ESP296", MAKE.format(first=first, second=second, after="pass")) == []


def test_a_function_that_counts_what_it_sorted_is_left_alone(found):
    first, second = DROPPING[0]
    check = "assert len(decay) + len(rest) == len(list(model.parameters()))"
    assert found("ESP296", MAKE.format(first=first, second=second, after=check)) == []


def test_groups_that_choose_what_to_train_are_left_alone(found):
    first, second = DROPPING[0]
    source = MAKE.format(first=first, second=second, after="pass").replace('"weight_decay": 0.0', '"lr": 1.0')
    assert found("ESP296", source) == []
