import torch
from torch import nn


class WeightedCE(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.ce = nn.CrossEntropyLoss(weight=weight, reduction="none")

    def forward(self, logits, target, sample_weight):
        return self.ce(logits, target) * sample_weight


net = nn.Linear(6, 3)
criterion = WeightedCE()
logits = net(torch.randn(10, 6))
loss = criterion(logits, torch.randint(0, 3, (10,)), torch.rand(10))
loss.backward()
