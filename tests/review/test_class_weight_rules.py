"""Cases of ESP127: the number of class weights."""

from __future__ import annotations

import pytest

TRAINING = """
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        return self.fc(x)

def main(loader, device):
    net = {net}
    weights = {weights}
    crit = {crit}
    for x, y in loader:
        loss = {loss}
"""


@pytest.mark.parametrize(
    ("net", "weights", "crit", "loss"),
    [
        ("Net()", "torch.tensor([1.0, 2.0, 3.0])", "nn.CrossEntropyLoss(weight=weights)", "crit(net(x), y)"),
        ("Net()", "torch.FloatTensor([1, 2]).to(device)", "nn.CrossEntropyLoss(weights)", "crit(net(x), y)"),
        ("Net(10)", "torch.ones(9)", "None", "F.cross_entropy(net(x), y, weight=weights)"),
        ("nn.Linear(8, 4)", "[0.5, 0.5]", "nn.CrossEntropyLoss(torch.tensor(weights))", "crit(net(x), y)"),
        ("Net()", "torch.tensor([1.0, 2.0])", "nn.BCEWithLogitsLoss(pos_weight=weights)", "crit(net(x), y)"),
    ],
)
def test_another_number_of_weights_than_classes_is_reported(net, weights, crit, loss, found):
    source = TRAINING.format(net=net, weights=weights, crit=crit, loss=loss)
    assert found("ESP127", source) == [f"loss = {loss}"]


@pytest.mark.parametrize(
    ("net", "weights", "crit"),
    [
        ("Net()", "torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])", "nn.CrossEntropyLoss(weight=weights)"),
        ("Net()", "torch.tensor([3.0])", "nn.BCEWithLogitsLoss(pos_weight=weights)"),
        ("Net()", "torch.tensor(load())", "nn.CrossEntropyLoss(weight=weights)"),
        ("Net(load())", "torch.ones(3)", "nn.CrossEntropyLoss(weight=weights)"),
        ("Net()", "None", "nn.CrossEntropyLoss(weight=weights)"),
    ],
)
def test_weights_for_all_classes_are_right(net, weights, crit, found):
    assert found("ESP127", TRAINING.format(net=net, weights=weights, crit=crit, loss="crit(net(x), y)")) == []
