import torch


def table(length, dim):
    position = torch.arange(length, dtype=torch.double).unsqueeze(1)
    rate = torch.exp(torch.arange(0, dim, 2) * (-9.2 / dim))
    out = torch.zeros(length, dim, dtype=position.dtype)
    out[:, 0::2] = torch.sin(position * rate)
    out[:, 1::2] = torch.cos(position * rate)
    return out
