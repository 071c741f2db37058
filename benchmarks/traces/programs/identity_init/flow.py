import torch
from torch import nn

from init_weights import near_identity, orthogonal


class Coupling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Linear(dim, dim)
        self.shift = nn.Sequential(nn.Linear(dim // 2, 16), nn.ReLU(), nn.Linear(16, dim // 2))

    def forward(self, x):
        x = self.mix(x)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a, b + self.shift(a)], dim=-1)


def build(dim, depth):
    blocks = []
    for _ in range(depth):
        block = Coupling(dim)
        block.shift.apply(orthogonal)
        near_identity(block.mix)
        blocks.append(block)
    return nn.Sequential(*blocks)


if __name__ == "__main__":
    flow = build(6, 3)
    print(flow(torch.randn(2, 6)).shape)
