import torch


def middle(x):
    return x[:, x.shape[1] / 2]


middle(torch.randn(2, 6))
