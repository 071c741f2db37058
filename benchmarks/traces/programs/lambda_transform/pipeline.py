import torch
from torch.utils.data import Dataset


class Pipeline:
    def __init__(self, mean, std):
        self.steps = [
            lambda x: x.float() / 255.0,
            lambda x: (x - mean) / std,
        ]

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Scans(Dataset):
    def __init__(self, n, transform):
        self.images = torch.randint(0, 256, (n, 1, 16, 16), dtype=torch.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.transform(self.images[i]), i % 2
