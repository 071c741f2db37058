import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from sheets import build_loader


class LeafEncoder(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 32, 4, 4), nn.GroupNorm(8, 32), nn.GELU(), nn.Conv2d(32, 128, 4, 4), nn.GELU()
        )
        self.project = nn.Linear(128, dim)

    def forward(self, sheet):
        return F.normalize(self.project(self.conv(sheet).mean((2, 3))), dim=1)


def info_nce(a, b, t=0.1):
    sims = a @ b.T / t
    goal = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(sims, goal) + F.cross_entropy(sims.T, goal)) / 2


def spread(bank):
    """How evenly the embeddings of an epoch cover the sphere."""
    sample = bank[torch.randperm(len(bank), device=bank.device)[:2048]]
    return torch.pdist(sample).pow(2).mul(-2).exp().mean().log()


def main(dataset, epochs=300):
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    encoder = DistributedDataParallel(LeafEncoder().cuda(), device_ids=[local])
    opt = torch.optim.AdamW(encoder.parameters(), lr=1e-3, weight_decay=1e-4)
    loader = build_loader(dataset, 512)  # expect: ESP204 @order
    for epoch in range(epochs):
        encoder.train()
        seen = []
        for first, second, _ in loader:
            za = encoder(first.cuda(non_blocking=True))
            zb = encoder(second.cuda(non_blocking=True))
            loss = info_nce(za, zb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            seen.append(za)  # expect: ESP303|ESP301
        if local == 0:
            print(epoch, f"{spread(torch.cat(seen)).item():.3f}")
    dist.destroy_process_group()
