import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def validate(rank, metric):
    if rank == 0:
        dist.all_reduce(metric)
    return metric


def worker(rank, world):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29616"
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=timedelta(seconds=5))
    validate(rank, torch.tensor([1.0]))
    if rank == 1:
        import time

        time.sleep(12)


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
