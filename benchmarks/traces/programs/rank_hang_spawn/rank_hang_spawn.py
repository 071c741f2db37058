import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def job(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29621")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    data = torch.ones(2)
    if rank == 1:
        raise ValueError(f"bad shard {rank}")
    dist.all_reduce(data)


if __name__ == "__main__":
    mp.spawn(job, args=(2,), nprocs=2)
