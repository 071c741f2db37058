import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.qkv = nn.Linear(dim, dim * 3)
        self.bias = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = torch.softmax(q @ k.transpose(-1, -2) + self.bias, -1)
        return scores @ v


model = Attn().to(torch.bfloat16)
data = torch.randn(2, 4, 16)
for _ in range(2):
    out = model(data)
    out.sum().backward()
