import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    @torch.no_grad()
    def forward(self, x):
        return self.head(self.backbone(x))


probe = Probe()
loss = nn.functional.cross_entropy(probe(torch.randn(3, 4)), torch.tensor([0, 1, 1]))
loss.backward()
