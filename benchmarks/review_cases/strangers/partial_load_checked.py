"""Starts a pathology model from natural images; what did not load is looked at."""
import logging

import torch
import torch.nn as nn

log = logging.getLogger(__name__)


class Backbone(nn.Module):
    def __init__(self, channels=3, classes=1000):
        super().__init__()
        self.stem = nn.Conv2d(channels, 32, 7, 2, 3)
        self.body = nn.Sequential(nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


def from_natural_images(path, stains=2):
    model = Backbone(classes=stains)
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = {k: v for k, v in state.items() if not k.startswith("fc.")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) != {"fc.weight", "fc.bias"}:
        raise RuntimeError(f"does not fit: missing {missing}, unexpected {unexpected}")
    return model


def warm_start(model, path):
    report = model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True), strict=False)
    log.info("warm start from %s: %s", path, report)
    return model


def resume(model, optimizer, path):
    saved = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"] + 1
