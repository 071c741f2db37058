"""Frame difference dataset."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, read_image


class FramePairs(Dataset):
    def __init__(self, paths, size=128):
        self.paths = paths
        self.size = size

    def __len__(self):
        return len(self.paths) - 1

    def __getitem__(self, index):
        first = read_image(self.paths[index], ImageReadMode.RGB)
        second = read_image(self.paths[index + 1], ImageReadMode.RGB)
        motion = second - first  # expect: ESP230
        motion = motion.float() / 255.0
        frame = first.float() / 255.0
        return torch.cat([frame, motion], dim=0)


def mean_motion(paths, workers=4):
    loader = DataLoader(FramePairs(paths), batch_size=32, num_workers=workers)
    total = torch.zeros(3)
    for batch in loader:
        total += batch[:, 3:].mean(dim=(0, 2, 3))
    return total / len(loader)
