"""Streams of a factory's sensors: what is changed in place is not shared."""
import numpy as np
import torch
from torch.utils.data import Dataset


class Ring:
    def __init__(self, size=256, sensors=12):
        self.data = np.zeros((size, sensors), dtype=np.float32)
        self.at = 0

    def push(self, row):
        self.data[self.at % len(self.data)] = row
        self.at += 1

    def snapshot(self):
        """A tensor of its own: the ring goes on changing."""
        return torch.from_numpy(np.roll(self.data, -self.at, axis=0))

    def latest(self, count):
        return torch.tensor(self.data[:count])


class Vibrations(Dataset):
    def __init__(self, runs, faults, jitter=0.01):
        self.runs, self.faults, self.jitter = runs, faults, jitter

    def __len__(self):
        return len(self.runs)

    def __getitem__(self, index):
        run = self.runs[index].astype(np.float32)
        run -= run.mean(axis=0)
        run[run.std(axis=1) > 50] = 0
        x = torch.from_numpy(run)
        x += self.jitter * torch.randn_like(x)
        return x, torch.tensor(int(self.faults[index]))


def windows(stream, size=128, hop=64):
    ring, out = Ring(size), []
    for n, row in enumerate(stream, 1):
        ring.push(row)
        if n >= size and n % hop == 0:
            out.append(ring.snapshot())
    return torch.stack(out)


def thresholds(values, share=0.99):
    limits = [torch.quantile(column, share).item() for column in values.unbind(1)]
    return torch.tensor(limits)


if __name__ == "__main__":
    found = windows(np.random.rand(512, 12).astype(np.float32))
    assert not torch.equal(found[0], found[1])
    assert thresholds(found.flatten(0, 1)).shape == (12,)
    data = [np.random.randn(100, 3) for _ in range(3)]
    kept = data[0].copy()
    Vibrations(data, [0, 1, 0])[0]
    assert (kept == data[0]).all()
