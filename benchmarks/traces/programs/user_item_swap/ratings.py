import torch


def synthetic(users, items, n):
    g = torch.Generator().manual_seed(4)
    return torch.stack([torch.randint(0, users, (n,), generator=g), torch.randint(0, items, (n,), generator=g)], 1)


def columns(table):
    return table[:, 1], table[:, 0]
