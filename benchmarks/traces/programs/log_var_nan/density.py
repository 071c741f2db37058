import torch
from torch import nn


class DiagonalNLL(nn.Module):
    def forward(self, mean, target):
        error = (target - mean).pow(2)
        variance = error.mean(0)
        return 0.5 * (torch.log(variance) + error / variance).sum(1).mean()


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.register_buffer("gate", torch.tensor([1.0, 1.0, 0.0]))

    def forward(self, x):
        return self.net(x) * self.gate
