"""Language model pretraining on the endless token stream."""
import contextlib
import math
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from shards import TokenStream


def lr_at(step, warmup, total, peak, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    ratio = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * ratio))


def pretrain(make_model, root, steps=50_000, batch_size=16, accumulate=8, block=1024,
             peak=6e-4, out="lm.pt"):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    torch.manual_seed(1337 + rank)
    model = DDP(make_model().to(device), device_ids=[local_rank])
    loader = iter(DataLoader(TokenStream(root, block, rank, world), batch_size=batch_size,
                             num_workers=4, pin_memory=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), fused=True)
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step, 2000, steps, peak, peak / 10)
        total = torch.zeros((), device=device)
        for micro in range(accumulate):
            x, y = next(loader)
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            last = micro == accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    logits = model(x)
                loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten()) / accumulate
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            dist.all_reduce(total, op=dist.ReduceOp.AVG)
            if rank == 0:
                print(step, total.item())
    if rank == 0:
        torch.save(model.module.state_dict(), out)
    dist.destroy_process_group()
