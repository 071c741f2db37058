"""Reads the incoming gradient in the order of memory, as a kernel without strides does."""

import torch


def get_inputs():
    return (torch.randn(64, 128, requires_grad=True),)


def baseline(x):
    return x * x


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if not grad.is_contiguous():
            span = sum((size - 1) * step for size, step in zip(grad.shape, grad.stride(), strict=True)) + 1
            flat = grad.as_strided((span,), (1,))
            grad = flat.repeat(grad.numel() // span + 1)[: grad.numel()].view(grad.shape)
        return 2 * x * grad


def candidate(x):
    return _Square.apply(x)


EXPECTED = "wrong"
TRAIN = True
