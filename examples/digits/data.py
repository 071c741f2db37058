"""Ten noisy patterns of 8 x 8 pixels, made and not downloaded."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

CLASSES, SIDE = 10, 8


def make_patterns(count: int, noise: float = 0.6, seed: int = 0) -> TensorDataset:
    """Return `count` samples: images of shape (count, 1, 8, 8) and their classes."""
    generator = torch.Generator().manual_seed(0)
    prototypes = torch.randn(CLASSES, 1, SIDE, SIDE, generator=generator)
    generator.manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    images = prototypes[labels] + noise * torch.randn(count, 1, SIDE, SIDE, generator=generator)
    return TensorDataset(images, labels)


def loaders(batch_size: int = 64) -> tuple[DataLoader, DataLoader]:
    """Return loaders of the training and the validation samples."""
    training = DataLoader(make_patterns(2048, seed=1), batch_size=batch_size, shuffle=True)
    validation = DataLoader(make_patterns(512, seed=2), batch_size=batch_size)
    return training, validation
