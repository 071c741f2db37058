"""ESP305 on numbers that are fetched for each parameter of a model."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review_sources

LOOP = """
import torch


def train(model, loader, optimizer, criterion):
    model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        {read}
        optimizer.step()
"""


def messages(read):
    report = review_sources({"train.py": LOOP.format(read=read)}, rules=["ESP305"])
    return [(claim.message, claim.remedy) for claim in report.claims]


@pytest.mark.parametrize(
    "read",
    [
        "norm = sum(p.grad.norm().item() ** 2 for p in model.parameters())",
        "norm = [p.grad.norm(2).item() for _, p in model.named_parameters()]",
        "for p in model.parameters():\n            total = p.grad.norm().item()",
    ],
)
def test_a_read_for_each_parameter_says_so_and_tells_how_to_join_them(read):
    ((message, remedy),) = messages(read)
    assert message.startswith("`.item()` for each parameter in every training step")
    assert "torch.stack(norms).norm()" in remedy


def test_one_read_in_a_step_says_nothing_of_parameters():
    ((message, remedy),) = messages("total = loss.item()")
    assert "parameter" not in message
    assert "torch.stack" not in remedy
