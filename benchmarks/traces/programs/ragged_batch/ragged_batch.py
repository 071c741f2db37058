import random

import torch
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, n=40):
        rng = random.Random(0)
        self.items = [[rng.randrange(100) for _ in range(rng.randrange(3, 9))] for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        return torch.tensor(self.items[idx]), idx % 2


if __name__ == "__main__":
    loader = DataLoader(Sentences(), batch_size=4, shuffle=True, num_workers=2)
    for tokens, label in loader:
        print(tokens.shape, label)
