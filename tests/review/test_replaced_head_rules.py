"""Cases of ESP201 with networks of libraries whose last part is replaced."""

from __future__ import annotations

import pytest

REPLACED_HEAD = """
    import torchvision
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torchvision.models.densenet121()
            self.net.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1024, 14){end})

        def forward(self, x):
            return self.net(x)

    def fit(loader):
        model, criterion = Net(), nn.BCEWithLogitsLoss()
        for x, y in loader:
            criterion(model(x), y).backward()
    """


def test_a_sigmoid_at_the_end_of_a_replaced_head_is_followed_to_the_loss(found):
    assert found("ESP201", REPLACED_HEAD.format(end=", nn.Sigmoid()")) == ["criterion(model(x), y).backward()"]


def test_a_replaced_head_without_activation_is_not_reported(found):
    assert found("ESP201", REPLACED_HEAD.format(end="")) == []


TRAINING = """
from torch import nn
from torchvision import models

def fit(model, loader, criterion):
    for x, y in loader:
        criterion(model(x), y).backward()

def main(loader):
    net = models.resnet18(weights="DEFAULT")
    {head}
    fit(net, loader, nn.{loss}())
"""


@pytest.mark.parametrize(
    ("rule", "head", "loss"),
    [
        ("ESP201", "net.fc = nn.Sequential(nn.Linear(512, 10), nn.Softmax(dim=1))", "CrossEntropyLoss"),
        ("ESP201", "net.classifier = nn.Sequential(nn.Linear(512, 10), nn.Sigmoid())", "BCEWithLogitsLoss"),
        ("ESP219", "net.fc = nn.Linear(512, 10)", "NLLLoss"),
        ("ESP219", "net.classifier[6] = nn.Linear(4096, 1)", "BCELoss"),
    ],
)
def test_the_last_layer_of_a_network_that_is_handed_over_decides_what_its_loss_gets(rule, head, loss, found):
    assert found(rule, TRAINING.format(head=head, loss=loss)) == ["criterion(model(x), y).backward()"]


@pytest.mark.parametrize(
    ("head", "loss"),
    [
        ("net.fc = nn.Linear(512, 10)", "CrossEntropyLoss"),
        ("net.fc = nn.Sequential(nn.Linear(512, 10), nn.LogSoftmax(dim=1))", "NLLLoss"),
        ("net.fc = nn.Sequential(nn.Linear(512, 1), nn.Sigmoid())", "BCELoss"),
        ("net.layer1 = nn.Sequential(net.layer1, nn.Sigmoid())", "BCEWithLogitsLoss"),
    ],
)
def test_a_head_that_fits_its_loss_is_right(head, loss, found):
    assert found("ESP201", TRAINING.format(head=head, loss=loss)) == []
    assert found("ESP219", TRAINING.format(head=head, loss=loss)) == []
