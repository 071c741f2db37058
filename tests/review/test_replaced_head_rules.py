"""Cases of ESP201 with networks of libraries whose last part is replaced."""

from __future__ import annotations

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
