import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        return x - self.mean


Norm()
