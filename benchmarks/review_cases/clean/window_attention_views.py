"""Window attention with reshapes that are right."""
import torch
from torch import nn


def partition(x, window):
    b, h, w, c = x.shape
    x = x.view(b, h // window, window, w // window, window, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, c)


def merge(windows, window, h, w):
    b = windows.shape[0] // (h * w // window // window)
    x = windows.view(b, h // window, w // window, window, window, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.zeros(heads, window * window, window * window))

    def forward(self, x):
        b, h, w, c = x.shape
        x = partition(x, self.window)
        n, length, _ = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5 + self.bias
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, c)
        return merge(self.proj(out), self.window, h, w)
