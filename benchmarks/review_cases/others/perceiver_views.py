import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, d_latent, d_input, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(d_latent, d_latent), nn.Linear(d_input, 2 * d_latent)
        self.o = nn.Linear(d_latent, d_latent)

    def forward(self, latent, inputs):
        b, m, d = latent.shape
        n, h = inputs.shape[1], self.heads
        q = self.q(latent).view(b, m, h, d // h).transpose(1, 2)
        k, v = self.kv(inputs).view(b, n, 2, h, d // h).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bhmd,bhnd->bhmn", q, k) * (d // h) ** -0.5
        mixed = scores.softmax(dim=-1) @ v
        return self.o(mixed.transpose(1, 2).contiguous().view(b, m, d))


class Perceiver(nn.Module):
    """Reads images as sequences of pixels; time and batch change places only by `permute`."""

    def __init__(self, channels=3, d=128, latents=64, classes=100):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, d) * 0.02)
        self.read = CrossAttention(d, channels + 2)
        self.rnn = nn.GRU(d, d)
        self.head = nn.Linear(d, classes)

    def forward(self, video):
        b, t, c, h, w = video.shape
        frames = video.view(b * t, c, h, w)
        ys, xs = torch.meshgrid(
            torch.linspace(-1, 1, h, device=video.device), torch.linspace(-1, 1, w, device=video.device), indexing="ij"
        )
        grid = torch.stack([ys, xs]).expand(b * t, 2, h, w)
        pixels = torch.cat([frames, grid], dim=1).flatten(2).transpose(1, 2)
        latent = self.read(self.latents.expand(b * t, -1, -1), pixels).mean(1)
        over_time = latent.view(b, t, -1).transpose(0, 1)
        _, last = self.rnn(over_time)
        return self.head(last.squeeze(0))


def windows(x, size):
    """(B, H, W, C) to (B, windows, size * size, C)."""
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.transpose(2, 3).reshape(b, -1, size * size, c)


def shuffle_channels(x, groups):
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).contiguous().view(b, c, h, w)
