"""Cloud cover from weather satellites, on one node of eight cards."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from clouds import CloudNet, Tiles
from hooks import EpochHooks


def main(epochs=12):
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    tiles, held_out = Tiles("train"), Tiles("valid")
    sampler = DistributedSampler(tiles, drop_last=True)
    loader = DataLoader(tiles, 32, sampler=sampler, num_workers=8, pin_memory=True, persistent_workers=True)
    valid = DataLoader(held_out, 64, sampler=DistributedSampler(held_out, shuffle=False), num_workers=4, pin_memory=True)
    model = DistributedDataParallel(CloudNet().cuda(), device_ids=[local])
    forward = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    hooks = EpochHooks(sampler, tiles)
    for epoch in range(epochs):
        hooks.start(epoch)
        model.train()
        for tile, cover in loader:
            loss = F.cross_entropy(forward(tile.cuda(non_blocking=True)), cover.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        right = torch.zeros(2, device="cuda")
        with torch.no_grad():
            for tile, cover in valid:
                cover = cover.cuda(non_blocking=True)
                right[0] += (model(tile.cuda(non_blocking=True)).argmax(1) == cover).sum()
                right[1] += cover.numel()
        dist.all_reduce(right)
        if local == 0:
            print(epoch, (right[0] / right[1]).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
