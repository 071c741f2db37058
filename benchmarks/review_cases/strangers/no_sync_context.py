"""Accumulates over micro-batches and lets the cards talk only at the last."""
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from cells import CellSegmenter, Microscopy


class Accumulator:
    def __init__(self, model, optimizer, every):
        self.model, self.optimizer, self.every = model, optimizer, every
        self.count = 0

    def __call__(self, images, masks):
        self.count += 1
        last = self.count % self.every == 0
        with nullcontext() if last else self.model.no_sync():
            loss = F.binary_cross_entropy_with_logits(self.model(images), masks) / self.every
            loss.backward()
        if last:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)


def main(epochs=10):
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    data = Microscopy("train")
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, 4, sampler=sampler, num_workers=6, pin_memory=True)
    model = DDP(CellSegmenter().cuda(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    accumulate = Accumulator(model, optimizer, every=8)
    model.train()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, masks in loader:
            accumulate(images.cuda(non_blocking=True), masks.cuda(non_blocking=True))
        if local == 0:
            torch.save(model.module.state_dict(), "cells.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
