import torch
from torch import nn


class Clipper(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        y = self.lin(x)
        norm = y.norm().item()
        if norm > 1.0:
            y = y / norm
        return y


model = torch.compile(Clipper(), fullgraph=True, backend="eager")
print(model(torch.randn(2, 8)).sum())
