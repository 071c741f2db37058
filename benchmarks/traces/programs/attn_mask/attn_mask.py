import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)

    def forward(self, x, mask):
        y, _ = self.attn(x, x, x, attn_mask=mask)
        return y


x = torch.randn(2, 10, 32)
mask = torch.ones(2, 10, dtype=torch.bool)
Decoder()(x, mask)
