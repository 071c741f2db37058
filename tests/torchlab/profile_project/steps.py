import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Slow(Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        time.sleep(0.001)  # line: sleeps
        return torch.ones(4)


def loads():
    batches = iter(DataLoader(Slow(), batch_size=4))

    def step():
        return next(batches).sum()

    return step


def trains():
    network = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    batches = iter(DataLoader(TensorDataset(torch.ones(200_000, 8)), batch_size=4))

    def step():
        optimizer.zero_grad()
        (x,) = next(batches)
        loss = network(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()  # line: waits

    return step


def ends():
    batches = iter([torch.ones(4)] * 3)
    return lambda: next(batches) + 1


def adds_many_times():
    one = torch.ones(4)

    def step():
        total = one
        for _ in range(200):
            total = total + one  # line: adds
        return total

    return step


def multiplies():
    one = torch.ones(384, 384)

    def step():
        return one @ one  # line: multiplies

    return step
