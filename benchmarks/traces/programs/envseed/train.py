import torch
from settings import Settings
from torch import nn


def run(settings):
    model = nn.Linear(4, settings.width)
    for step in range(settings.steps):
        model(torch.randn(2, 4)).sum().backward()


run(Settings())
