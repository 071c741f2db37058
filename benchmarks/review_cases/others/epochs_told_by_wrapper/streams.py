from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class EpochLoader:
    """A loader that tells its sampler which pass it is on."""

    def __init__(self, dataset, batch_size, rank, world):
        self.sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=True, seed=17)
        self.inner = DataLoader(
            dataset, batch_size=batch_size, sampler=self.sampler, num_workers=4, pin_memory=True, drop_last=True
        )
        self.passes = 0

    def __len__(self):
        return len(self.inner)

    def __iter__(self):
        self.sampler.set_epoch(self.passes)
        self.passes += 1
        return iter(self.inner)


def held_out(dataset, batch_size, rank, world):
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=False)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, num_workers=4, pin_memory=True)
