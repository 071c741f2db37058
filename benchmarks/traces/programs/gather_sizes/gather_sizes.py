import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def collect_predictions(preds, world):
    outs = [torch.zeros_like(preds) for _ in range(world)]
    dist.all_gather(outs, preds)
    return torch.cat(outs)


def worker(rank, world):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29615"
    dist.init_process_group("gloo", rank=rank, world_size=world)
    preds = torch.randn(8 if rank == 0 else 5, 3)
    print(collect_predictions(preds, world).shape)


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
