import torch
from torch import nn

from timing import Timed


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.tokens, self.channels = Timed(nn.Linear(tokens, tokens)), Timed(nn.Linear(dim, dim))

    def forward(self, x):
        x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
        return x + self.channels(x)


def prepare(fullgraph=True):
    return torch.compile(nn.Sequential(Mixer(6, 8), Mixer(6, 8)).eval(), fullgraph=fullgraph, backend="eager")


if __name__ == "__main__":
    with torch.no_grad():
        print(prepare()(torch.randn(2, 6, 8)).shape)
