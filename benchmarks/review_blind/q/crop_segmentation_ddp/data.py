"""Satellite tiles with crop masks."""
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class TileDataset(Dataset):
    def __init__(self, root, split, augment=False):
        self.files = sorted(Path(root, split).glob("*.npz"))
        self.augment = augment

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        tile = np.load(self.files[index])
        image = torch.from_numpy(tile["bands"].astype(np.float32)) / 10000.0
        mask = torch.from_numpy(tile["mask"].astype(np.int64))
        if self.augment:
            turns = int(torch.randint(4, (1,)))
            image = torch.rot90(image, turns, (1, 2))
            mask = torch.rot90(mask, turns, (0, 1))
            if torch.rand(1) < 0.5:
                image, mask = image.flip(2), mask.flip(1)
        return image.contiguous(), mask.contiguous()


def make_loaders(root, batch_size, rank, world, workers=6):
    train, val = TileDataset(root, "train", augment=True), TileDataset(root, "val")
    sampler = DistributedSampler(train, num_replicas=world, rank=rank, shuffle=True)
    train_loader = DataLoader(train, batch_size=batch_size, sampler=sampler,
                              num_workers=workers, pin_memory=True, drop_last=True)
    share = torch.utils.data.Subset(val, range(rank, len(val), world))
    val_loader = DataLoader(share, batch_size=batch_size, num_workers=workers, pin_memory=True)
    return train_loader, val_loader, sampler
