"""Input pipelines with a known bottleneck; waits are sleeps, so that they do not depend on the processor."""

import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Slow(Dataset):
    """A dataset whose decoding is slow."""

    def __len__(self):
        return 2_000

    def __getitem__(self, index):
        sample = self.decode(index)
        return sample * 2

    def decode(self, index):
        time.sleep(0.005)
        return torch.full((8,), float(index))


class Stream(IterableDataset):
    """A stream that every worker reads from its start."""

    def __iter__(self):
        for index in range(2_000):
            time.sleep(0.005)
            yield torch.full((8,), float(index))


class SharedStream(IterableDataset):
    """A stream that the workers divide."""

    def __iter__(self):
        worker = get_worker_info()
        first, by = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index in range(first, 2_000, by):
            time.sleep(0.005)
            yield torch.full((8,), float(index))


class Broken(Slow):
    """A dataset with a sample that cannot be read."""

    def __getitem__(self, index):
        raise ValueError("sample 0 is damaged")


class BrokenInWorkers(Slow):
    """A dataset that can be read by the main process only."""

    def __getitem__(self, index):
        if get_worker_info() is not None:
            raise RuntimeError("no file handle in workers")
        return super().__getitem__(index)


def slow_data():
    return DataLoader(Slow(), batch_size=2)


def fast_data():
    return DataLoader(torch.arange(4_000.0), batch_size=2)


def two_loaders():
    return slow_data(), fast_data()


def stream():
    return DataLoader(Stream(), batch_size=2)


def shared_stream():
    return DataLoader(SharedStream(), batch_size=2)


def with_lambda():
    return DataLoader(
        Slow(),
        batch_size=2,
        collate_fn=lambda samples: torch.stack(samples),
        multiprocessing_context="spawn",
        num_workers=1,
    )


def broken():
    return DataLoader(Broken(), batch_size=2)


def broken_in_workers():
    return DataLoader(BrokenInWorkers(), batch_size=2)


def empty():
    return DataLoader(torch.ones(0, 8), batch_size=2)


def generator():
    for index in range(500):
        time.sleep(0.005)
        yield torch.full((2, 8), float(index))


loader = slow_data()
settings = {"batch_size": 4}


def make_fast_step():
    def step(batch):
        time.sleep(0.001)
        return batch.sum()

    return step


def make_slow_step():
    def step(batch):
        time.sleep(0.06)

    return step


def broken_step(batch):
    raise KeyError("label")
