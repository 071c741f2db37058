"""Numbers and shapes that depend on the values of a tensor."""

import torch


def item_midway(x):  # breaks-by-default; again 1
    total = x.sum().item()  # break
    return x * total  # again


def item_at_the_end(x):  # breaks-by-default
    return (x * 2).sum().item()  # break


def float_of_a_tensor(x):  # breaks-by-default; again 1
    total = float(x.sum())  # break
    return x * total  # again


def tolist_of_floats(x):  # fails-fullgraph
    return x.sum(1).tolist()  # break


def nonzero_first(x):  # breaks-by-default
    return x.nonzero().float() * 2  # break


def boolean_mask(x):  # breaks-by-default
    y = x + 1
    return y[y > 0] * 2  # break


def unique_of_a_mask(x):  # breaks-by-default
    return torch.unique(x > 0)  # break


def mask_by_product(x):  # clean
    return x * (x > 0) * 2


def item_across_lines(x):  # breaks-by-default; again 1
    y = x.sin()
    return torch.add(  # again
        y,
        y.sum().item(),  # break
    )
