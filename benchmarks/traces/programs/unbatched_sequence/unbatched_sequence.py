import torch
from torch import nn


class Cnn1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(16, 32, 3)

    def forward(self, x):
        return self.conv(x)


def run(net):
    x = torch.randn(4, 50, 16)
    return net(x)


run(Cnn1d())
