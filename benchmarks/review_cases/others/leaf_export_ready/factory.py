import torch
import torch.nn as nn


def make_classifier(species: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(32, species),
    )  # fmt: skip


def ready_for_export(path: str, species: int) -> nn.Module:
    """Returns the classifier with its weights, in evaluation mode."""
    net = make_classifier(species)
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    for p in net.parameters():
        p.requires_grad_(False)
    return net.eval()
