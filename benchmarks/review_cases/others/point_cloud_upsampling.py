"""Upsamples sparse LiDAR patches; a repulsion term keeps new points from clumping."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class FeatureExpansion(nn.Module):
    def __init__(self, channels: int = 128, ratio: int = 4) -> None:
        super().__init__()
        self.ratio = ratio
        self.local = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, channels, 1), nn.ReLU())
        self.branches = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(ratio))
        self.coord = nn.Conv1d(channels, 3, 1)

    def forward(self, xyz: torch.Tensor) -> torch.Tensor:
        feat = self.local(xyz.transpose(1, 2))
        out = [self.coord(torch.relu(branch(feat))) for branch in self.branches]
        return torch.cat(out, dim=2).transpose(1, 2)


def chamfer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    d = ((a.unsqueeze(2) - b.unsqueeze(1)) ** 2).sum(-1)
    return d.min(dim=2).values.mean() + d.min(dim=1).values.mean()


def repulsion(points: torch.Tensor, radius: float = 0.07) -> torch.Tensor:
    gaps = points.unsqueeze(2) - points.unsqueeze(1)
    dist = torch.sqrt((gaps ** 2).sum(dim=-1))  # expect: ESP212
    weight = torch.exp(-(dist ** 2) / radius ** 2)
    return ((radius - dist).clamp(min=0) * weight).mean()


class Upsampler:
    def __init__(self, patches, out_dir, lr=1e-3, device="cuda"):
        self.device = torch.device(device)
        self.net = FeatureExpansion().to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr, betas=(0.9, 0.99))
        self.loader = DataLoader(patches, 28, shuffle=True, num_workers=6, pin_memory=True, drop_last=True)
        self.out_dir = out_dir

    def fit(self, max_steps: int = 60_000) -> None:
        self.net.train()
        step = 0
        while step < max_steps:
            for sparse, dense in self.loader:
                sparse = sparse.to(self.device, non_blocking=True)
                dense = dense.to(self.device, non_blocking=True)
                up = self.net(sparse)
                objective = 100 * chamfer(up, dense) + repulsion(up)
                objective.backward()  # expect: ESP101
                self.opt.step()
                step += 1
                if step % 500 == 0:
                    print(f"{step:>6} {objective.item():.4f}")
                    torch.save(self.net.state_dict(), f"{self.out_dir}/{step}.pt")
                if step >= max_steps:
                    break
