import random

import torch
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, n, seed=0):
        rng = random.Random(seed)
        self.rows = [[rng.randrange(1, 50) for _ in range(rng.randrange(4, 12))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {"ids": row, "target": int(sum(row) % 2)}


def collate(samples):
    ids = torch.tensor([sample["ids"] for sample in samples])
    target = torch.tensor([sample["target"] for sample in samples])
    return ids, target


def loaders(batch_size):
    return (
        DataLoader(Sentences(40), batch_size=batch_size, shuffle=True, collate_fn=collate),
        DataLoader(Sentences(10, seed=1), batch_size=batch_size, collate_fn=collate),
    )
