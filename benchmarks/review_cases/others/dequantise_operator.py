"""Operators for 8-bit point weights, kept opaque to the compiler."""

import torch
from torch import Tensor


@torch.library.custom_op("fieldkit::dequantise", mutates_args=())
def dequantise(codes: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return (codes.to(scale.dtype) - zero) * scale


@dequantise.register_fake
def _(codes, scale, zero):
    return torch.empty_like(codes, dtype=scale.dtype)


@torch.library.custom_op("fieldkit::pad_rows", mutates_args=())
def pad_rows(x: Tensor, multiple: int) -> Tensor:
    short = -x.shape[0] % multiple
    if short == 0:
        return x  # expect: ESP507
    return torch.cat([x, x.new_zeros(short, x.shape[1])])


@pad_rows.register_fake
def _(x, multiple):
    rows = (x.shape[0] + multiple - 1) // multiple * multiple
    return x.new_empty(rows, x.shape[1])


class QuantLinear(torch.nn.Module):
    def __init__(self, codes, scale, zero, bias=None):
        super().__init__()
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)
        self.register_buffer("bias", bias)

    def forward(self, x):
        rows = x.shape[0]
        weight = dequantise(self.codes, self.scale, self.zero)
        out = pad_rows(x, 16) @ weight.T
        if self.bias is not None:
            out = out + self.bias
        return out[:rows]
