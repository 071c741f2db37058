import torch
from torch import Tensor, nn


@torch.library.custom_op("seg::crop", mutates_args=())
def crop(x: Tensor, top: int, left: int, size: int) -> Tensor:
    return x[..., top : top + size, left : left + size].clone()


@crop.register_fake
def _(x, top, left, size):
    return x.new_empty(*x.shape[:-2], size, size)


@torch.library.custom_op("seg::scale_", mutates_args={"x"})
def scale_(x: Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("seg::relu_copy", mutates_args=())
def relu_copy(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, torch.zeros_like(x))


@relu_copy.register_fake
def _(x):
    return torch.empty_like(x)


class LoggedTensor(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LoggedTensor.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Quantised(nn.Module):
    def forward(self, x):
        y = x.clone()
        torch.ops.seg.scale_(y, 127.0)
        return Straight.apply(torch.ops.seg.relu_copy(y)) / 127.0


model = torch.compile(Quantised())
