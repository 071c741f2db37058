from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def train(model, dataset, rank, epochs=3, accum=4):
    device = torch.device("cuda", rank)
    ddp = DDP(model.to(device), device_ids=[rank])
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 32, sampler=sampler, num_workers=4, pin_memory=True, drop_last=True)
    opt = torch.optim.AdamW(ddp.parameters(), 1e-4)
    ddp.train()
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % accum == 0
            with nullcontext() if last else ddp.no_sync():
                loss = F.cross_entropy(ddp(x.to(device, non_blocking=True)), y.to(device, non_blocking=True)) / accum
                loss.backward()
            if last:
                opt.step()
                opt.zero_grad(set_to_none=True)


def evaluate(model, dataset, rank):
    device = torch.device("cuda", rank)
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, 64, sampler=sampler, num_workers=4, pin_memory=True)
    model.eval()
    hits = torch.zeros((), device=device)
    with torch.inference_mode():
        for x, y in loader:
            hits += (model(x.to(device)).argmax(1) == y.to(device)).sum()
    dist.all_reduce(hits)
    return (hits / len(dataset)).item()


def micro_step_flag(ddp, batches, opt, accum):
    for i, (x, y) in enumerate(batches):
        ddp.require_backward_grad_sync = (i + 1) % accum == 0
        (F.cross_entropy(ddp(x), y) / accum).backward()
        if (i + 1) % accum == 0:
            opt.step()
            opt.zero_grad()
