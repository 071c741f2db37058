"""Shifted-window blocks on latitude/longitude fields."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, size):
    """(B, H, W, C) -> (B * windows, size * size, C)."""
    B, H, W, C = x.shape
    x = x.reshape(B, H // size, size, W // size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, C)


def window_reverse(windows, size, H, W):
    C = windows.size(-1)
    x = windows.reshape(-1, H // size, W // size, size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class PatchEmbed(nn.Module):
    def __init__(self, channels, dim, patch=4):
        super().__init__()
        self.patch = patch
        self.proj = nn.Linear(channels * patch * patch, dim)

    def forward(self, x):
        B, C, H, W = x.shape
        p = self.patch
        x = x.reshape(B, C, H // p, p, W // p, p).permute(0, 2, 4, 1, 3, 5)
        return self.proj(x.reshape(B, H // p, W // p, C * p * p))


class PatchRecover(nn.Module):
    def __init__(self, dim, channels, patch=4):
        super().__init__()
        self.patch, self.channels = patch, channels
        self.proj = nn.Linear(dim, channels * patch * patch)

    def forward(self, x):
        B, h, w, _ = x.shape
        p = self.patch
        x = self.proj(x).view(B, h, w, self.channels, p, p).permute(0, 3, 1, 4, 2, 5)
        return x.reshape(B, self.channels, h * p, w * p)


class WindowBlock(nn.Module):
    def __init__(self, dim, heads, size, grid, shift):
        super().__init__()
        self.heads, self.size, self.shift = heads, size, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mask = None
        if shift:
            rows = torch.zeros(1, *grid, 1)
            rows[:, -size:-shift] = 1
            rows[:, -shift:] = 2
            label = window_partition(rows, size).squeeze(-1)
            mask = (label.unsqueeze(1) == label.unsqueeze(2)).unsqueeze(1)
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, x):
        N, T, C = x.shape
        q, k, v = self.qkv(x).view(N, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        mask = None
        if self.mask is not None:
            mask = self.mask.repeat(N // self.mask.size(0), 1, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(N, T, C))

    def forward(self, x):
        _, H, W, _ = x.shape
        h = self.norm1(x)
        if self.shift:
            h = h.roll((-self.shift, -self.shift), dims=(1, 2))
        h = window_reverse(self.attend(window_partition(h, self.size)), self.size, H, W)
        if self.shift:
            h = h.roll((self.shift, self.shift), dims=(1, 2))
        x = x + h
        return x + self.mlp(self.norm2(x))


class WeatherNet(nn.Module):
    def __init__(self, channels=69, dim=384, heads=8, size=8, grid=(32, 64), depth=8):
        super().__init__()
        self.embed, self.recover = PatchEmbed(channels, dim), PatchRecover(dim, channels)
        self.pos = nn.Parameter(torch.zeros(1, *grid, dim))
        self.blocks = nn.Sequential(*[
            WindowBlock(dim, heads, size, grid, size // 2 if i % 2 else 0) for i in range(depth)])

    def forward(self, x):
        return x + self.recover(self.blocks(self.embed(x) + self.pos))
