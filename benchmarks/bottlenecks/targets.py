"""Training steps and functions whose bottleneck is known by how they were made. Each makes what is then called."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[], object]


def product() -> Step:
    """Multiply matrices that are large enough to keep every unit busy."""
    one, other = torch.randn(512, 512), torch.randn(512, 512)
    return lambda: (one @ other) @ other


def convolution() -> Step:
    """Convolve."""
    network, images = nn.Conv2d(32, 64, 3), torch.randn(4, 32, 32, 32)
    return partial(network, images)


def tangent() -> Step:
    """Compute what takes many instructions for each element."""
    numbers = torch.randn(1 << 18)
    return partial(torch.tanh, numbers)


def sorting() -> Step:
    """Sort."""
    numbers = torch.randn(1 << 16)
    return partial(torch.sort, numbers)


def update_in_place() -> Step:
    """Stream through memory that no cache holds."""
    one, other = torch.randn(1 << 24), torch.randn(1 << 24)
    return lambda: one.add_(other).mul_(0.5)


def transposed_copy() -> Step:
    """Copy against the grain of memory."""
    one, out = torch.randn(1024, 1024), torch.empty(1024, 1024)
    return lambda: out.copy_(one.t())


def lookup() -> Step:
    """Fetch rows of a table that no cache holds."""
    table, rows = nn.Embedding(100_000, 128), torch.randint(0, 100_000, (4096,))
    return partial(table, rows)


def many_small_operations() -> Step:
    """Add four numbers three hundred times."""
    one = torch.randn(4)

    def step() -> object:
        total = one
        for _ in range(300):
            total = total + one
        return total

    return step


def interpreted_loop() -> Step:
    """Compute in Python."""
    one = torch.randn(4)
    return lambda: one + sum(number * number for number in [*range(30_000)])


def many_small_parameters() -> Step:
    """Step an optimizer over many tiny tensors."""
    parameters = [nn.Parameter(torch.randn(4)) for _ in range(100)]
    for parameter in parameters:
        parameter.grad = torch.ones(4)
    optimizer = torch.optim.SGD(parameters, lr=1e-6, foreach=False)
    return optimizer.step


class _Slow(Dataset[Any]):
    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        return torch.full((64,), float(index))


class _Busy(Dataset[Any]):
    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float((index * place) % 7) for place in range(64)])


def _trained_on(batches: Iterator[torch.Tensor]) -> Step:
    network = nn.Linear(64, 64)
    return lambda: network(next(batches)).sum().backward()


def sleeping_loader() -> Step:
    """Wait for samples."""
    return _trained_on(iter(DataLoader(_Slow(), batch_size=16)))


def busy_loader() -> Step:
    """Make samples in Python."""
    return _trained_on(iter(DataLoader(_Busy(), batch_size=16)))


def own_generator() -> Step:
    """Make samples in a generator, without a DataLoader."""

    def batches() -> Iterator[torch.Tensor]:
        while True:
            yield torch.tensor([[float((row * place) % 7) for place in range(64)] for row in range(32)])

    return _trained_on(batches())


def fresh_memory() -> Step:
    """Make a large tensor that is given back to the system each time."""
    numbers = torch.randn(12 << 20)
    return lambda: torch.sum(numbers + 1)


def lock() -> Step:
    """Take turns with a thread that keeps a lock most of the time."""
    held, one = threading.Lock(), torch.randn(64, 64)

    def keep() -> None:
        while True:
            with held:
                time.sleep(0.004)
            time.sleep(0.001)

    threading.Thread(target=keep, daemon=True).start()

    def step() -> object:
        with held:
            return one @ one

    return step


def answer_of_thread() -> Step:
    """Wait for what another thread computes."""
    pool, one = ThreadPoolExecutor(1), torch.randn(256, 256)
    return lambda: pool.submit(torch.mm, one, one).result()
