import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=256, heads=8, drop=0.1):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop)  # expect: ESP216
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + F.dropout(self.feed(x), p=self.drop)  # expect: ESP216
