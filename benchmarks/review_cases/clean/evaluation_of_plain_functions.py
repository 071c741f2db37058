"""Not every loop over a loader is evaluation of a network: statistics, caching, drawing."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


def mean_and_std(loader: DataLoader):
    total, square, n = torch.zeros(3), torch.zeros(3), 0
    for images, _ in loader:
        flat = images.flatten(2)
        total += flat.mean((0, 2)) * len(images)
        square += flat.pow(2).mean((0, 2)) * len(images)
        n += len(images)
    mean = total / max(n, 1)
    return mean, (square / max(n, 1) - mean**2).clamp_min(0).sqrt()


def class_counts(loader, classes):
    counts = torch.zeros(classes, dtype=torch.long)
    for _, labels in loader:
        counts += torch.bincount(labels, minlength=classes)
    return counts


def evaluate(tokenizer, loader):
    return sum(len(tokenizer.encode(text)) for text, _ in loader)


class Normalise(nn.Module):
    """Fixed statistics, no parameters: modes and gradients mean nothing here."""

    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean.view(1, -1, 1, 1))
        self.register_buffer("std", std.view(1, -1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / (self.std + 1e-6)


def test_pipeline(loader):
    normalise = Normalise(*mean_and_std(loader))
    return [normalise(images).mean() for images, _ in loader]


def sanity_check(model, batch):
    """One forward and backward pass to see that shapes agree and gradients arrive."""
    model.train()
    out = model(batch)
    out.sum().backward()
    missing = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    model.zero_grad()
    return out.shape, missing


def count_flops(model, shape):
    total = 0

    def hook(module, inputs, output):
        nonlocal total
        if isinstance(module, nn.Linear):
            total += 2 * module.in_features * output.numel()

    handles = [m.register_forward_hook(hook) for m in model.modules()]
    model.eval()
    with torch.no_grad():
        model(torch.zeros(shape))
    for h in handles:
        h.remove()
    return total
