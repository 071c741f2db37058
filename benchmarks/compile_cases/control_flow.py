"""Decisions: on values, which dynamo cannot trace, and on shapes, which it can."""

import torch


def branch_on_a_value(x):  # breaks
    y = x * 2
    if y.sum() > 0:  # break
        return y + 1
    return y - 1


def two_branches_on_values(x):  # breaks
    y = x * 2
    if y.sum() > 1e6:  # break
        y = y + 1
    z = y.relu()
    if z.max() > 1e6:  # break
        z = z - 1
    return z * 3


def loop_until_a_value(x):  # breaks
    while x.abs().sum() < 1e4:  # break
        x = x * 2
    return x


def branch_on_a_value_in_a_loop(x):  # skipped
    for step in range(3):
        if x.sum() > step:  # break
            x = x + 1
    return x


def assertion_on_a_value(x):  # clean
    assert x.abs().sum() > -1, "never"
    return x + 1


def branch_on_a_shape(x):  # clean
    if x.dim() == 2 and x.shape[1] == 8:
        return x * 2
    return x


def branch_on_the_parity_of_the_batch(x):  # clean; again 1
    if x.shape[0] % 2 == 0:  # again
        return x * 2
    return x + 1


def choice_by_where(x):  # clean
    y = x * 2
    return torch.where(y.sum() > 0, y + 1, y - 1)


def choice_by_cond(x):  # clean
    return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))
