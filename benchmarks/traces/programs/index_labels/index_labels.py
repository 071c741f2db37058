import torch

table = torch.zeros(5, 3)


def lookup(labels):
    return table[labels]


lookup(torch.tensor([1.0, 2.0]))
