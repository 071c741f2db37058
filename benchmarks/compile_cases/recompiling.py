"""Code that is compiled again, once or until dynamo gives it up."""

import torch
from torch import nn

CALLS = {"count": 0}


class Counter(nn.Module):  # clean; again 1; limit
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.count = 0

    def forward(self, x):
        self.count += 1  # again for Counter, InnerCounter
        return self.inner(x) * self.count


class InnerCounter(nn.Module):  # clean; again 1; limit
    def __init__(self):
        super().__init__()
        self.inner = Counter()

    def forward(self, x):
        return self.inner(x).relu()


def count_in_a_dictionary(x):  # clean; again 1; limit
    CALLS["count"] += 1  # again
    return x * CALLS["count"]


class BreaksFromTheSecondCallOn(nn.Module):  # breaks; again 1
    def __init__(self):
        super().__init__()
        self.is_seen = False

    def forward(self, x):
        y = x * 2
        if self.is_seen:  # again
            print("second call")  # break
        self.is_seen = True
        return y + 1


def break_for_large_batches(x):  # breaks
    y = x + 1
    if x.shape[0] > 4:
        print("large")  # break
    return y * 2


class CounterInABuffer(nn.Module):  # clean
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x * self.count
