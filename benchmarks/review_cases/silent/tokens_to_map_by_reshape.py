import torch
import torch.nn as nn


class TokensToMap(nn.Module):
    """Puts ViT tokens back on their grid and refines them with convolutions."""

    def __init__(self, dim, out, grid):
        super().__init__()
        self.grid = grid
        self.refine = nn.Sequential(nn.Conv2d(dim, out, 3, padding=1), nn.GELU(), nn.Conv2d(out, out, 3, padding=1))

    def forward(self, tokens):
        b, n, c = tokens.shape
        h = w = self.grid
        assert n == h * w
        maps = tokens.reshape(b, c, h, w)  # expect: ESP209
        return self.refine(maps)


class DepthHead(nn.Module):
    def __init__(self, dim=768, grid=14):
        super().__init__()
        self.to_map = TokensToMap(dim, 128, grid)
        self.out = nn.Conv2d(128, 1, 1)

    def forward(self, tokens):
        y = self.out(self.to_map(tokens[:, 1:]))
        return nn.functional.interpolate(y, scale_factor=16, mode="bilinear", align_corners=False).squeeze(1)


def silog(pred, target, lam=0.85, eps=1e-6):
    d = torch.log(pred.clamp_min(eps)) - torch.log(target.clamp_min(eps))
    return torch.sqrt((d**2).mean() - lam * d.mean() ** 2 + eps)
