"""Takes the norm of all gradients by one call on a list."""

import torch

SIZES = ((64, 64), (64,), (128, 64), (128,))


def get_inputs():
    return ([torch.randn(size) for size in SIZES],)


def baseline(gradients):
    return torch.stack([each.square().sum() for each in gradients]).sum().sqrt()


def candidate(gradients):
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))


EXPECTED = "right"
