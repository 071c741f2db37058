"""Attention inside shifted windows of a satellite image."""
import torch
import torch.nn as nn


def partition(x, size):
    """(B, H, W, C) to (B * windows, size * size, C)."""
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).view(-1, size * size, c)  # expect: ESP208


def merge(windows, size, h, w):
    b = windows.shape[0] * size * size // (h * w)
    x = windows.view(b, h // size, w // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim=96, heads=3, size=7):
        super().__init__()
        self.size = size
        self.attend = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, shift=0):
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-shift, -shift), (1, 2)) if shift else self.norm(x)
        windows = partition(y, self.size)
        out, _ = self.attend(windows, windows, windows, need_weights=False)
        y = merge(out, self.size, h, w)
        return x + (torch.roll(y, (shift, shift), (1, 2)) if shift else y)
