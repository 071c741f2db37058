"""A stream that each worker reads a part of, and a loader whose workers seed their own generators."""

from itertools import islice

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        with open(self.path) as source:
            yield from islice(source, first, None, step)


class Crops(Dataset):
    def __init__(self, images):
        self.images = images
        self.rng = np.random.default_rng()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        top = self.rng.integers(32)
        return self.images[i][:, top : top + 224]


def reseed(_):
    get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed() % 2**32)


def loaders(path, images):
    lines = DataLoader(Lines(path), batch_size=32, num_workers=4)
    return lines, DataLoader(Crops(images), batch_size=32, num_workers=4, worker_init_fn=reseed, pin_memory=True)
