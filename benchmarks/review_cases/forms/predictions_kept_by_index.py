import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


def train(loader, epochs):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    last = {}
    for epoch in range(epochs):
        for ids, x, y in loader:
            logits = net(x)
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, y).backward()
            optimizer.step()
            for number, row in zip(ids.tolist(), logits):
                last[number] = row  # expect: ESP303
    return last
