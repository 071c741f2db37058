import torch


def scatter_sum(values, index, size):
    """Sum of the rows of `values` that belong to each of `size` groups."""
    out = torch.zeros(size, values.shape[1])
    return out.index_add(0, index, values)  # expect: ESP104 @s


def degree(index, size):
    return torch.bincount(index, minlength=size).to(torch.float32)
