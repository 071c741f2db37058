import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from towers import TwoTowers


def losses(out, y, d, alpha):
    total = nn.functional.cross_entropy(out["label"], y)
    if alpha:
        total = total + alpha * nn.functional.cross_entropy(out["domain"], d)
    return total


def worker(rank, world, alpha):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DDP(TwoTowers())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(8, 6)
        y, d = torch.randint(0, 4, (8,)), torch.randint(0, 2, (8,))
        out = model(x, with_domain=alpha > 0)
        opt.zero_grad()
        losses(out, y, d, alpha).backward()
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2, 0.0), nprocs=2)
