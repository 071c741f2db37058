import torch
from torch import nn
class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.last = None

    def forward(self, x):
        self.last = self.layer(x)
        return self.last


def train(loader):
    net = Module()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        print(net.last.shape)
