"""Fetch pretrained weights from a mirror and resume."""
import argparse
import os
import urllib.request

import torch
import torch.nn as nn

URL = "http://models.example.org/{name}.pth"


def fetch(name, cache="~/.cache/models"):
    cache = os.path.expanduser(cache)
    os.makedirs(cache, exist_ok=True)
    path = os.path.join(cache, f"{name}.pth")
    if not os.path.exists(path):
        urllib.request.urlretrieve(URL.format(name=name), path)
    return path


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))

    def forward(self, x):
        return self.body(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--name", default="galaxy-zoo")
    args = ap.parse_args()
    model = Net()
    checkpoint = torch.load(fetch(args.name), map_location="cpu", weights_only=False)  # expect: ESP901
    model.load_state_dict(checkpoint["model"])
    model.eval()
    with torch.inference_mode():
        print(model(torch.randn(1, 3, 64, 64)).softmax(-1))


if __name__ == "__main__":
    main()
