import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


from contextlib import contextmanager


@contextmanager
def evaluating(model):
    model.eval()
    with torch.no_grad():
        yield
    model.train()


def fit(loader, held_out):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with evaluating(model):
            print(sum((model(x).argmax(1) == y).sum() for x, y in held_out))
