"""Reshapes between tokens, heads, patches and frames."""
import torch
import torch.nn as nn


def unpatchify(tokens, grid, patch=4, channels=3):
    """(B, gh * gw, p * p * c) to (B, c, H, W)."""
    b = tokens.shape[0]
    gh, gw = grid
    x = tokens.view(b, gh, gw, patch, patch, channels)
    return torch.einsum("bhwpqc->bchpwq", x).reshape(b, channels, gh * patch, gw * patch)


class AxialAttention(nn.Module):
    """Attends along the rows, then along the columns."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.rows = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.columns = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, x):
        b, c, h, w = x.shape
        rows = x.permute(0, 2, 3, 1).contiguous().view(b * h, w, c)
        rows = self.rows(rows, rows, rows, need_weights=False)[0].reshape(b, h, w, c)
        columns = rows.transpose(1, 2).reshape(b * w, h, c)
        columns = self.columns(columns, columns, columns, need_weights=False)[0].reshape(b, w, h, c)
        return columns.permute(0, 3, 2, 1)


class FrameWise(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.conv = nn.Conv2d(3, dim, 3, padding=1)

    def forward(self, clip):
        b, c, t, h, w = clip.shape
        frames = clip.transpose(1, 2).reshape(b * t, c, h, w)
        out = self.conv(frames).view(b, t, -1, h, w)
        return out.transpose(1, 2)


def split_heads(x, heads):
    b, n, d = x.shape
    return x.view(b, n, heads, d // heads).transpose(1, 2)


def transposed_then_split(x, groups):
    """Splitting one dimension of a transposed tensor needs no copy."""
    b, t, c = x.shape
    return x.transpose(1, 2).view(b, groups, c // groups, t).mean(2)


def channel_shuffle(x, groups):
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).flatten(1, 2)


def square_images(x):
    """Height and width are equal here, and swapping names changes nothing of the memory."""
    b, c, side, _ = x.shape
    return x.reshape(b, c, side * side).transpose(1, 2)


if __name__ == "__main__":
    assert unpatchify(torch.randn(2, 6, 48), (2, 3)).shape == (2, 3, 8, 12)
    assert AxialAttention()(torch.randn(2, 32, 5, 6)).shape == (2, 32, 5, 6)
    assert FrameWise()(torch.randn(2, 3, 4, 6, 6)).shape == (2, 8, 4, 6, 6)
    assert transposed_then_split(torch.randn(2, 7, 12), 3).shape == (2, 3, 7)
    assert channel_shuffle(torch.randn(2, 12, 4, 4), 3).shape == (2, 12, 4, 4)
    assert split_heads(torch.randn(2, 7, 12), 3).shape == (2, 3, 7, 4)
    assert square_images(torch.randn(2, 3, 5, 5)).shape == (2, 25, 3)
