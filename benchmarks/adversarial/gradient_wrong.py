"""Is right forward and wrong backward."""

import torch


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (1 - x * x).clamp_min(0)


def get_inputs():
    return torch.randn(32, 128, requires_grad=True), torch.randn(128, 64, requires_grad=True)


def baseline(x, w):
    return torch.tanh(x @ w)


def candidate(x, w):
    return Function.apply(x @ w)


EXPECTED = "wrong"
TRAIN = True
