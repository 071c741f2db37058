import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def stream_once(model, dataset, rank):
    """One pass over a huge corpus: there is no second order to draw."""
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, 16, sampler=sampler, num_workers=4, pin_memory=True)
    ddp = DDP(model.cuda(rank), device_ids=[rank])
    opt = torch.optim.AdamW(ddp.parameters(), 2e-4)
    ddp.train()
    for i, ids in enumerate(loader):
        ids = ids.cuda(rank, non_blocking=True)
        loss = F.cross_entropy(ddp(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if rank == 0 and i % 500 == 0:
            print(i, loss.item())


class Epochs:
    """Iterates a loader for epochs, and tells its sampler."""

    def __init__(self, loader, epochs):
        self.loader, self.epochs = loader, epochs

    def __iter__(self):
        for epoch in range(self.epochs):
            if hasattr(self.loader.sampler, "set_epoch"):
                self.loader.sampler.set_epoch(epoch)
            yield epoch, self.loader


def finetune(model, train_set, val_set, rank, epochs=3):
    train = DataLoader(train_set, 32, sampler=DistributedSampler(train_set), num_workers=4, pin_memory=True)
    val = DataLoader(val_set, 32, sampler=DistributedSampler(val_set, shuffle=False), num_workers=4, pin_memory=True)
    ddp = DDP(model.cuda(rank), device_ids=[rank])
    opt = torch.optim.AdamW(ddp.parameters(), 2e-5)
    for epoch, loader in Epochs(train, epochs):
        ddp.train()
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            F.cross_entropy(ddp(x.cuda(rank)), y.cuda(rank)).backward()
            opt.step()
        ddp.eval()
        hits = torch.zeros((), device=f"cuda:{rank}")
        with torch.inference_mode():
            for x, y in val:
                hits += (ddp(x.cuda(rank)).argmax(1) == y.cuda(rank)).sum()
        dist.all_reduce(hits)
        if rank == 0:
            print(epoch, hits.item())


if __name__ == "__main__":
    dist.init_process_group("nccl")
    print(os.environ["LOCAL_RANK"])
