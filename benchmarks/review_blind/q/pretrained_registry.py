"""Fetch and load pretrained weights for edge vision models."""
import argparse
import logging
import os
import tempfile
import urllib.request
from urllib.parse import urlparse

import torch
import torch.nn as nn

logger = logging.getLogger(__name__)


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


class TinyNet(nn.Module):
    def __init__(self, num_classes=10, width=32):
        super().__init__()
        self.features = nn.Sequential(
            ConvBlock(3, width, 2), ConvBlock(width, 2 * width, 2),
            ConvBlock(2 * width, 4 * width, 2), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def is_url(path):
    return urlparse(path).scheme in ("http", "https")


def download(url, cache_dir=None):
    cache_dir = cache_dir or os.path.join(tempfile.gettempdir(), "edge_weights")
    os.makedirs(cache_dir, exist_ok=True)
    target = os.path.join(cache_dir, os.path.basename(urlparse(url).path))
    if not os.path.exists(target):
        logger.info("downloading %s", url)
        urllib.request.urlretrieve(url, target)
    return target


def strip_prefix(state, prefix="module."):
    return {k[len(prefix):] if k.startswith(prefix) else k: v for k, v in state.items()}


def load_weights(model, pretrained, device="cpu", state_key="model"):
    path = download(pretrained) if is_url(pretrained) else pretrained
    checkpoint = torch.load(path, map_location=device, weights_only=False)
    state = checkpoint.get(state_key, checkpoint)
    state = strip_prefix(state)
    own = model.state_dict()
    keep, skipped = {}, []
    for name, value in state.items():
        if name in own and own[name].shape == value.shape:
            keep[name] = value
        else:
            skipped.append(name)
    result = model.load_state_dict(keep, strict=False)
    if skipped or result.missing_keys:
        logger.warning("skipped %s, missing %s", skipped, result.missing_keys)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrained", required=True, help="path or http(s) address")
    parser.add_argument("--num-classes", type=int, default=10)
    parser.add_argument("--output", default="model.ts")
    args = parser.parse_args()
    model = load_weights(TinyNet(args.num_classes), args.pretrained).eval()
    with torch.no_grad():
        traced = torch.jit.trace(model, torch.zeros(1, 3, 96, 96))
    traced.save(args.output)


if __name__ == "__main__":
    main()
