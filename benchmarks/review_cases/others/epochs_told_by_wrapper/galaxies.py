import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

from streams import EpochLoader, held_out


def network():
    return nn.Sequential(
        nn.Conv2d(5, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 37),
    )  # fmt: skip


def main(train_set, val_set, epochs=90, every=4):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    net = DDP(network().cuda(), device_ids=[torch.cuda.current_device()])
    train, val = EpochLoader(train_set, 128, rank, world), held_out(val_set, 256, rank, world)
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        net.train()
        for i, (image, votes) in enumerate(train, start=1):
            last = i % every == 0 or i == len(train)
            with contextlib.nullcontext() if last else net.no_sync():
                out = net(image.cuda(non_blocking=True))
                loss = nn.functional.mse_loss(out.sigmoid(), votes.cuda(non_blocking=True))
                (loss / every).backward()
            if last:
                opt.step()
                opt.zero_grad()
        net.eval()
        error = torch.zeros(2, device="cuda")
        with torch.no_grad():
            for image, votes in val:
                votes = votes.cuda(non_blocking=True)
                error[0] += (net(image.cuda(non_blocking=True)).sigmoid() - votes).square().sum()
                error[1] += votes.numel()
        dist.all_reduce(error)
        if rank == 0:
            print(epoch, (error[0] / error[1]).sqrt().item())
