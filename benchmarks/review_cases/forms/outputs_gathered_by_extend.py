import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


def train(loader):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scores, truth = [], []
    for x, y in loader:
        logits = net(x)
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits, y).backward()
        optimizer.step()
        scores.extend(logits.unbind())  # expect: ESP303
        truth += list(y)
    return scores, truth
