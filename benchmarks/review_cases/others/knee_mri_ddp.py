import os

import torch
import torch.distributed as dist
import torch.fft
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils import data


class DataConsistency(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, image, kspace, mask):
        k = torch.fft.fft2(torch.view_as_complex(image.permute(0, 2, 3, 1).contiguous()))
        k = torch.where(mask, (k + self.weight * kspace) / (1 + self.weight), k)
        return torch.view_as_real(torch.fft.ifft2(k)).permute(0, 3, 1, 2)


class Cascade(nn.Module):
    def __init__(self, n=8, width=32):
        super().__init__()
        self.denoise = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2, 3, padding=1))
            for _ in range(n)
        )
        self.dc = nn.ModuleList(DataConsistency() for _ in range(n))

    def forward(self, image, kspace, mask):
        for conv, dc in zip(self.denoise, self.dc):
            image = dc(image - conv(image), kspace, mask)
        return image


def worker(slices, epochs, accumulate=8):
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    net = DDP(Cascade().cuda(), device_ids=[rank])
    optimizer = torch.optim.RAdam(net.parameters(), lr=1e-3)
    sampler = data.DistributedSampler(slices, shuffle=True)
    loader = data.DataLoader(slices, batch_size=1, sampler=sampler, num_workers=4, pin_memory=True)  # expect: ESP204
    for epoch in range(epochs):
        net.train()
        optimizer.zero_grad()
        for i, (zero_filled, kspace, mask, target) in enumerate(loader):
            zero_filled, kspace = zero_filled.cuda(non_blocking=True), kspace.cuda(non_blocking=True)
            mask, target = mask.cuda(non_blocking=True), target.cuda(non_blocking=True)
            loss = nn.functional.l1_loss(net(zero_filled, kspace, mask), target)
            (loss / accumulate).backward()  # expect: ESP412
            if (i + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        if rank == 0:
            torch.save(net.module.state_dict(), f"cascade_{epoch:02d}.pt")
    dist.destroy_process_group()
