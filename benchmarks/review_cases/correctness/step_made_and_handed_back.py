import torch
from torch import nn


class Depth(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.GELU())
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, images):
        return self.head(self.body(images))


def make_step():
    """What the profiler is given: a step that can be repeated."""
    model = Depth()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    images = torch.rand(4, 3, 64, 64)
    depth = torch.rand(4, 1, 64, 64)

    def step():
        loss = nn.functional.l1_loss(model(images), depth)
        loss.backward()  # expect: ESP101
        optimizer.step()

    return step
