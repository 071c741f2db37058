"""Point cloud patches to tokens."""
import torch
import torch.nn as nn


class PatchTokens(nn.Module):
    def __init__(self, channels=3, patch=8, dim=256):
        super().__init__()
        self.patch = patch
        self.conv = nn.Conv2d(channels, dim, patch, stride=patch)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.conv(x)
        b, c, gh, gw = h.shape
        tokens = h.permute(0, 2, 3, 1)
        tokens = tokens.view(b, gh * gw, c)
        return self.norm(tokens)

    def unpatch(self, tokens, size):
        b, n, c = tokens.shape
        maps = tokens.transpose(1, 2)
        flat = maps.view(b, -1)  # expect: ESP208
        return flat, size


class Pool(nn.Module):
    def forward(self, x):
        swapped = x.permute(0, 2, 1)
        return swapped.contiguous().view(swapped.size(0), -1)


def forward_all(images):
    tok = PatchTokens()
    tokens = tok(images)
    flat, _ = tok.unpatch(tokens, images.shape[-2:])
    return torch.cat([flat, Pool()(tokens)], dim=1)
