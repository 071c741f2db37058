import torch
from torch import nn


class MaskedMean(nn.Module):
    def forward(self, hidden, mask):
        # hidden [B, T, D], mask [B, T]
        summed = (hidden * mask).sum(1)
        return summed / mask.sum(1, keepdim=True)


pool = MaskedMean()
print(pool(torch.randn(4, 7, 16), torch.ones(4, 7)))
