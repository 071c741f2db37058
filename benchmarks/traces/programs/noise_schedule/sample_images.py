import torch
from torch import nn

from edm import Sampler


def denoiser(channels=1):
    return nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, channels, 3, padding=1))


if __name__ == "__main__":
    print(Sampler(denoiser()).sample((2, 1, 8, 8)).mean())
