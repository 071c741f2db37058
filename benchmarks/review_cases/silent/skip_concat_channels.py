"""Tiny U-Net for denoising diffusion; the decoder forgets that skips add channels."""
import math

import torch
from torch import nn
import torch.nn.functional as F


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        half = self.dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        args = t[:, None].float() * freqs[None]
        return self.mlp(torch.cat([args.sin(), args.cos()], dim=-1))


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = TimeEmbedding(128)
        self.inc = nn.Conv2d(3, 64, 3, padding=1)
        self.down = nn.Conv2d(64, 128, 4, stride=2, padding=1)
        self.mid = nn.Conv2d(128, 128, 3, padding=1)
        self.up = nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1)
        self.outc = nn.Conv2d(64, 3, 3, padding=1)  # expect: ESP205

    def forward(self, x, t):
        a = F.silu(self.inc(x))
        b = F.silu(self.down(a)) + self.time(t)[:, :, None, None]
        c = F.silu(self.mid(b))
        d = F.silu(self.up(c))
        return self.outc(torch.cat([d, a], dim=1))


def diffusion_loss(model, x0, alphas_bar):
    t = torch.randint(0, len(alphas_bar), (x0.size(0),), device=x0.device)
    a = alphas_bar[t].view(-1, 1, 1, 1)
    noise = torch.randn_like(x0)
    return F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)
