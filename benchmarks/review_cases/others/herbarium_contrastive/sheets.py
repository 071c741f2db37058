import os

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def is_distributed():
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def build_loader(dataset, batch_size, train=True):
    sampler = DistributedSampler(dataset, shuffle=train, drop_last=train) if is_distributed() else None
    return DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=sampler,
        shuffle=train and sampler is None,
        num_workers=8,
        pin_memory=True,
        drop_last=train,
    )  # expect: ESP204 @order
