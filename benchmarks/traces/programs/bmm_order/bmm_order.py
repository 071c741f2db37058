import torch


def attend(q, k):
    return torch.bmm(q, k)


attend(torch.randn(2, 5, 8), torch.randn(2, 5, 8))
