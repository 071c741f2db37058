import torch
from torch.utils.data import Dataset


class Churn(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        *features, left = self.rows[i]
        return torch.tensor(features), torch.tensor([left])


def generate(n):
    g = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(n):
        a, b, c = torch.rand(3, generator=g).tolist()
        rows.append((a, b, c, int(a + b > 1)))
    return rows
