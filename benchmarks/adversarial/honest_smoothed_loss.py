"""Takes the fused loss with smoothed labels."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(64, 10), torch.randint(0, 10, (64,))


def baseline(logits, labels):
    logs = torch.log_softmax(logits, -1)
    right = -logs.gather(-1, labels[:, None]).squeeze(-1)
    return (0.9 * right + 0.1 * -logs.mean(-1)).mean()


def candidate(logits, labels):
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


EXPECTED = "right"
