import torch
from torch.utils.data import Dataset


class Shapes(Dataset):
    def __init__(self, n=12, side=24):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        image = torch.zeros(1, self.side, self.side)
        top = i % (self.side // 2)
        image[:, top : top + 6, 4:12] = 1.0
        mask = (image > 0.5).long()
        return image + 0.1 * torch.randn_like(image), mask
