"""Cases of ESP222 and ESP223: samples and random numbers that every worker of a loader repeats."""

from __future__ import annotations

import pytest

HEAD = """
import csv
import glob
import gzip
import json
import os
import random
from itertools import islice

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


"""

REPEATED = {
    "lines of a file": """
class Lines(IterableDataset):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def __iter__(self):
        with gzip.open(self.path, "rt") as source:
            for line in source:
                yield json.loads(line)


loader = DataLoader(Lines("a.gz"), batch_size=8, num_workers=4)
""",
    "a list of the constructor": """
class Items(IterableDataset):
    def __init__(self, n):
        self.items = list(range(n))

    def __iter__(self):
        random.shuffle(self.items)
        return iter(self.items)


def main():
    data = Items(100)
    return DataLoader(data, 8, num_workers=2)
""",
    "files that a method reads": """
class Files(IterableDataset):
    def __init__(self, folder):
        self.files = sorted(glob.glob(folder + "/*.csv"))

    def read(self, path):
        with open(path) as f:
            for row in csv.reader(f):
                yield row

    def __iter__(self):
        for path in self.files:
            yield from self.read(path)


loader = DataLoader(dataset=Files("data"), batch_size=8, num_workers=os.cpu_count())
""",
    "a setting": """
class Windows(IterableDataset):
    def __init__(self, series, size):
        self.series, self.size = series, size

    def __iter__(self):
        for i in range(len(self.series) - self.size):
            yield self.series[i : i + self.size]


def fit(args, series):
    loader = DataLoader(Windows(series, 8), num_workers=args.workers, batch_size=4)
    for x in loader:
        print(x)
""",
    "a Lightning data module": """
class Corpus(IterableDataset):
    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __iter__(self):
        for text in self.texts:
            yield text.split()


class Data(pl.LightningDataModule):
    def setup(self, stage):
        self.train_data = Corpus(load())

    def train_dataloader(self):
        return DataLoader(self.train_data, batch_size=4, num_workers=8)
""",
    "lines that a method hands on": """
class Stream(IterableDataset):
    def __init__(self, paths):
        self.paths = paths

    def lines(self):
        for path in self.paths:
            with open(path, encoding="utf-8") as source:
                yield from source

    def __iter__(self):
        for line in self.lines():
            yield json.loads(line)


loader = DataLoader(Stream(find()), batch_size=4, num_workers=2)
""",
    "a default": """
class Chunks(IterableDataset):
    def __init__(self, path):
        self.lines = open(path).read().splitlines()

    def __iter__(self):
        for number, line in enumerate(self.lines):
            yield number, line


def make_loader(path, num_workers=4):
    return DataLoader(Chunks(path), batch_size=4, num_workers=num_workers)
""",
}

DIVIDED = {
    "by the worker": """
class Lines(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        with open("a.txt") as source:
            yield from islice(source, info.id, None, info.num_workers)


loader = DataLoader(Lines(), num_workers=4)
""",
    "by a helper": """
def part(items):
    info = torch.utils.data.get_worker_info()
    return items if info is None else items[info.id :: info.num_workers]


class Items(IterableDataset):
    def __init__(self):
        self.items = list(range(100))

    def __iter__(self):
        for item in part(self.items):
            yield item


loader = DataLoader(Items(), num_workers=4)
""",
    "when a worker starts": """
class Items(IterableDataset):
    def __init__(self):
        self.items = list(range(100))

    def __iter__(self):
        return iter(self.items)


loader = DataLoader(Items(), num_workers=4, worker_init_fn=divide)
""",
    "no workers": """
class Items(IterableDataset):
    def __iter__(self):
        for i in range(10):
            yield i


loader = DataLoader(Items(), batch_size=4)
other = DataLoader(Items(), batch_size=4, num_workers=0)
""",
    "samples that are drawn": """
class Noise(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for _ in range(self.n):
            yield torch.randn(3)


loader = DataLoader(Noise(100), num_workers=4)
""",
    "a source that is handed on": """
class Chained(IterableDataset):
    def __init__(self, first, second):
        self.first, self.second = first, second

    def __iter__(self):
        yield from self.first
        yield from self.second


loader = DataLoader(Chained(make(), make()), num_workers=4)
""",
    "a source of any kind": """
class Mapped(IterableDataset):
    def __init__(self, inner, change):
        self.inner, self.change = inner, change

    def __iter__(self):
        for sample in self.inner:
            yield self.change(sample)


loader = DataLoader(Mapped(make(), str), num_workers=4)
""",
    "a queue": """
class Queued(IterableDataset):
    def __init__(self, queue):
        self.queue = queue

    def __iter__(self):
        for _ in range(1000):
            yield self.queue.get()


loader = DataLoader(Queued(make()), num_workers=4)
""",
    "a dataset with an index": """
class Items(Dataset):
    def __getitem__(self, i):
        return i

    def __iter__(self):
        for i in range(10):
            yield i


loader = DataLoader(Items(), num_workers=4)
""",
}


@pytest.mark.parametrize("body", REPEATED.values(), ids=REPEATED)
def test_an_iterable_dataset_that_every_worker_reads_in_full_is_found(found, body):
    assert found("ESP222", HEAD + body) == ["def __iter__(self):"]


@pytest.mark.parametrize("body", DIVIDED.values(), ids=DIVIDED)
def test_iterable_datasets_that_divide_or_draw_samples_are_left_alone(found, body):
    assert found("ESP222", HEAD + body) == []


def test_a_dataset_of_another_file_is_found_at_its_iteration(found):
    files = {
        "data.py": (
            "from torch.utils.data import IterableDataset\n\n"
            "class Rows(IterableDataset):\n    def __iter__(self):\n        for i in range(9):\n            yield i\n"
        ),
        "train.py": (
            "from torch.utils.data import DataLoader\nfrom data import Rows\n\n"
            "loader = DataLoader(Rows(), num_workers=3)\n"
        ),
    }
    assert found("ESP222", files) == ["def __iter__(self):"]


SAMPLES = """
class Base(Dataset):
    def __init__(self, items, seed=0):
        self.items = items
        {made}

    def __len__(self):
        return len(self.items)

    def crop(self, x):
        {drawn}

    def __getitem__(self, i):
        return self.crop(self.items[i])


def loaders(items, args):
    data = Base(items)
    return DataLoader(data, batch_size=8, shuffle=True, {loader})
"""
COPIED = {
    "numpy": ("self.rng = np.random.default_rng(seed)", "return x[self.rng.integers(3) :]", "num_workers=4"),
    "numpy, as it was": (
        "self.rng = np.random.RandomState(0)",
        "return x * self.rng.rand()",
        "num_workers=args.workers",
    ),
    "python": ("self.dice = random.Random(seed)", "return x if self.dice.random() < 0.5 else -x", "num_workers=4"),
    "torch": (
        "self.generator = torch.Generator().manual_seed(seed)",
        "return x + torch.randn(3, generator=self.generator)",
        "num_workers=8, persistent_workers=True",
    ),
    "not seeded": ("self.rng = np.random.default_rng()", "return self.rng.permutation(x)", "num_workers=2"),
    "given to a transform": ("self.rng = np.random.default_rng()", "return jitter(x, self.rng)", "num_workers=2"),
}
OWN = {
    "no workers": ("self.rng = np.random.default_rng(seed)", "return x[self.rng.integers(3) :]", "num_workers=0"),
    "seeded in each worker": (
        "self.rng = np.random.default_rng(seed)",
        "return x[self.rng.integers(3) :]",
        "num_workers=4, worker_init_fn=seed_worker",
    ),
    "seeded in each worker that draws": (
        "self.rng = np.random.default_rng(seed)",
        "return x[self.rng.integers(3) :] if self.training else x",
        "num_workers=4, worker_init_fn=seed_worker); other = DataLoader(Samples([], 0), num_workers=4",
    ),
    "used when it is made": (
        "self.rng = np.random.default_rng(seed); self.order = self.rng.permutation(len(items))",
        "return x",
        "num_workers=4",
    ),
    "seeded by the sample": (
        "self.rng = np.random.RandomState(0)",
        "self.rng.seed(hash(x)); return x * self.rng.rand()",
        "num_workers=4",
    ),
    "made for each sample": (
        "self.seed = seed",
        "rng = np.random.default_rng(self.seed + hash(x)); return x * rng.random()",
        "num_workers=4",
    ),
    "numpy's own": ("np.random.seed(seed)", "return x * np.random.rand()", "num_workers=4"),
    "made in the worker": (
        "self.rng = None",
        "self.rng = self.rng or np.random.default_rng(torch.initial_seed()); return x * self.rng.random()",
        "num_workers=4",
    ),
}


@pytest.mark.parametrize(("made", "drawn", "loader"), COPIED.values(), ids=COPIED)
def test_a_generator_that_is_copied_to_workers_is_found(found, made, drawn, loader):
    assert found("ESP223", HEAD + SAMPLES.format(made=made, drawn=drawn, loader=loader)) == [made]


@pytest.mark.parametrize(("made", "drawn", "loader"), OWN.values(), ids=OWN)
def test_generators_that_differ_between_workers_are_left_alone(found, made, drawn, loader):
    assert found("ESP223", HEAD + SAMPLES.format(made=made, drawn=drawn, loader=loader)) == []


def test_a_generator_of_the_module_is_found(found):
    source = (
        "import numpy as np\nfrom torch.utils.data import DataLoader, Dataset\n\nRNG = np.random.default_rng(1)\n\n"
        "class Noisy(Dataset):\n    def __getitem__(self, i):\n        return i + RNG.normal()\n\n"
        "loader = DataLoader(Noisy(), num_workers=2)\n"
    )
    assert found("ESP223", source) == ["RNG = np.random.default_rng(1)"]
