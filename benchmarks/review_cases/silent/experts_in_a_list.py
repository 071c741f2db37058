import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = [Expert(width) for _ in range(count)]  # expect: ESP215
        self.temperature = torch.ones(1, requires_grad=True)  # expect: ESP215

    def forward(self, x):
        weights = torch.softmax(self.gate(x) / self.temperature, dim=-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (outputs * weights.unsqueeze(-2)).sum(-1)
