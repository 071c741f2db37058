import torch
from torch.utils.data import Dataset

LABELS = {"cat": 0, "dog": 1}


class Animals(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        name = self.names[i]
        image = torch.rand(3, 8, 8)
        return image, LABELS[name]
