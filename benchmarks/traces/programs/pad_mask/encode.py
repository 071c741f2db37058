import torch

from blocks import Stack


def padded(lengths, dim=32):
    longest = max(lengths)
    x = torch.zeros(len(lengths), longest, dim)
    pad = torch.ones(len(lengths), longest, dtype=torch.bool)
    for row, n in enumerate(lengths):
        x[row, :n] = torch.randn(n, dim)
        pad[row, :n] = False
    return x, pad


if __name__ == "__main__":
    x, pad = padded([7, 5, 9])
    print(Stack()(x, pad).shape)
