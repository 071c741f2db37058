import logging

import torch

log = logging.getLogger(__name__)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        h = x @ self.w
        print("mean activation", h.mean())
        return torch.relu(h)


step = torch.compile(Block(), backend="eager", fullgraph=True)
step(torch.randn(3, 4))
