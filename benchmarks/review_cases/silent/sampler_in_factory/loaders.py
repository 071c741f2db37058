import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, training, workers=4):
    sampler = None
    if dist.is_available() and dist.is_initialized():
        sampler = DistributedSampler(dataset, shuffle=training, drop_last=training)  # expect: ESP204 @s
    return DataLoader(
        dataset, batch_size, shuffle=training and sampler is None, sampler=sampler,
        num_workers=workers, pin_memory=True, drop_last=training,
    )
