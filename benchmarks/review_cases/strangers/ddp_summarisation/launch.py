"""torchrun --nproc-per-node 8 launch.py"""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from corpus import Articles, collate, make_model
from loaders import build_loaders


def main(epochs=6):
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    train, dev = build_loaders(Articles("train"), Articles("dev"), collate, per_gpu=8)
    model = DistributedDataParallel(torch.compile(make_model().cuda()), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    for epoch in range(epochs):  # expect: ESP204 @epoch
        model.train()
        for batch in train:
            batch = {k: v.cuda(non_blocking=True) for k, v in batch.items()}
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        total = torch.zeros((), device="cuda")
        with torch.no_grad():
            for batch in dev:
                total += model(**{k: v.cuda(non_blocking=True) for k, v in batch.items()}).loss
        dist.all_reduce(total)
        if rank == 0:
            print(epoch, total.item() / len(dev) / dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
