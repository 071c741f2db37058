import pytest
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.token = nn.Linear(tokens, tokens)
        self.channel = nn.Linear(dim, dim)

    def forward(self, x):
        x = self.token(x)
        return self.channel(x)


@pytest.fixture
def batch():
    return torch.randn(2, 9, 16)


def test_output_shape(batch):
    assert Mixer(9, 16)(batch).shape == batch.shape
