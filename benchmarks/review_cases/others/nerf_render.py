from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Rays:
    origins: torch.Tensor
    directions: torch.Tensor

    def __len__(self):
        return self.origins.shape[0]

    def __getitem__(self, key):
        return Rays(self.origins[key], self.directions[key])


class Radiance(nn.Module):
    def __init__(self, bands=10, width=256):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(bands))
        self.trunk = nn.Sequential(
            nn.Linear(3 * 2 * bands, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )

    def forward(self, xyz):
        phase = (xyz[..., None] * self.freqs).flatten(-2)
        raw = self.trunk(torch.cat([phase.sin(), phase.cos()], -1))
        return raw[..., :3].sigmoid(), F.softplus(raw[..., 3])


def march(field, rays, near=2.0, far=6.0, samples=64):
    t = torch.linspace(near, far, samples, device=rays.origins.device)
    pts = rays.origins[:, None] + rays.directions[:, None] * t[:, None]
    rgb, sigma = field(pts)
    delta = (far - near) / samples
    alpha = 1 - torch.exp(-sigma * delta)
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha], -1), -1)[:, :-1]
    weights = alpha * clear
    return (weights[..., None] * rgb).sum(1), weights


def sparsity(weights):
    """Entropy along each ray: low where the density sits on one surface."""
    return -(weights * torch.log(weights)).sum(-1).mean()  # expect: ESP213


def training_step(field, optimizer, rays, colours, lam=1e-3):
    optimizer.zero_grad()
    rgb, weights = march(field, rays)
    loss = F.mse_loss(rgb, colours) + lam * sparsity(weights)
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def render_view(field, rays, height, width, chunk=4096):
    field.eval()
    pixels = torch.empty(0, 3, device=rays.origins.device)
    for start in range(0, len(rays), chunk):
        rgb, _ = march(field, rays[start : start + chunk])
        pixels = torch.cat((pixels, rgb), dim=0)  # expect: ESP401
    field.train()
    return pixels.reshape(height, width, 3).clamp(0, 1)
