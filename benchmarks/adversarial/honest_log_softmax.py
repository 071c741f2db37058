"""Takes the loss from logits in one operation."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(64, 100, requires_grad=True), torch.randint(0, 100, (64,))


def baseline(x, y):
    return F.nll_loss(torch.log_softmax(x, -1), y)


def candidate(x, y):
    return F.cross_entropy(x, y)


EXPECTED = "right"
TRAIN = True
