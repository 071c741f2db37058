import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def load(self, path):
        if path.endswith("bad.png"):
            return None
        return torch.rand(3, 4, 4)

    def __getitem__(self, i):
        return self.load(self.paths[i]), i


for x, i in DataLoader(Images(["a.png", "bad.png", "c.png"]), batch_size=3):
    print(x.shape)
