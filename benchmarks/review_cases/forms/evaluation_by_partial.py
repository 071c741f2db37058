import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


from functools import partial


def run_epoch(model, loader, is_training, optimizer=None):
    model.train(is_training)
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)  # expect: ESP302
        if is_training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += float(loss.detach())  # allow: ESP305
    return total


def main(train_loader, test_loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit = partial(run_epoch, model, is_training=True, optimizer=optimizer)
    test = partial(run_epoch, model, is_training=False)
    for _ in range(5):
        fit(train_loader)
        test(test_loader)
