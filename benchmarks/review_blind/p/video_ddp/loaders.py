import torch
from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler

from clips import ClipDataset
from launch import rank, world_size


class ShardSampler(Sampler):
    """Every item exactly once over all ranks, no padding."""

    def __init__(self, n):
        self.idx = range(rank(), n, world_size())

    def __iter__(self):
        return iter(self.idx)

    def __len__(self):
        return len(self.idx)


class EpochLoader:
    """DataLoader that advances its sampler's epoch by itself."""

    def __init__(self, loader):
        self.loader, self.epoch = loader, 0

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        self.loader.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return iter(self.loader)


def train_loader(root, batch, workers=8):
    ds = ClipDataset(root, "train", frames=16)
    sampler = DistributedSampler(ds, world_size(), rank(), shuffle=True, drop_last=True)
    gen = torch.Generator().manual_seed(1000 + rank())
    return EpochLoader(DataLoader(ds, batch, sampler=sampler, num_workers=workers,
                                  pin_memory=True, drop_last=True, generator=gen))


def val_loader(root, batch, workers=4):
    ds = ClipDataset(root, "val", frames=16)
    return DataLoader(ds, batch, sampler=ShardSampler(len(ds)), num_workers=workers, pin_memory=True)
