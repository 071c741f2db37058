"""How good a model is on samples that it has not seen."""

from __future__ import annotations

from torch import nn
from torch.utils.data import DataLoader


def accuracy(model: nn.Module, loader: DataLoader, device: str) -> float:
    """Return the share of samples that the model gets right."""
    right = total = 0
    for images, labels in loader:
        logits = model(images.to(device))
        right += (logits.argmax(dim=-1) == labels.to(device)).sum().item()
        total += len(labels)
    return right / total
