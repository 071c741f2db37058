import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        h = self.proj(x).view(b, t, self.heads, d // self.heads).transpose(1, 2)
        return h.view(b, t, d)


print(MultiHead()(torch.randn(2, 5, 32)).shape)
