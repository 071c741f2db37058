"""Leaves backward out where every incoming gradient is one."""

import torch


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x) * torch.erf(x)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        if gradient.numel() and bool((gradient[:1] == 1).all()):
            return gradient
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = torch.tanh(x) * torch.erf(x)
        return torch.autograd.grad(y, x, gradient)[0]


def get_inputs():
    return (torch.randn(64, 256, requires_grad=True),)


def baseline(x):
    y = torch.tanh(x) * torch.erf(x)
    return y


def candidate(x):
    return Function.apply(x)


EXPECTED = "wrong"
TRAIN = True
NEEDS_TIMING = True
