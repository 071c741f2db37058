"""Code that runs eagerly, and raises when it is compiled."""

import torch


@torch.library.custom_op("compile_cases::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("compile_cases::wrong_fake", mutates_args=())
def wrong_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@wrong_fake.register_fake
def _(x):
    return x.new_empty(3, 3)


@torch.library.custom_op("compile_cases::item_in_backward", mutates_args=())
def item_in_backward(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@item_in_backward.register_fake
def _(x):
    return torch.empty_like(x)


def _backward(context, gradient):
    return gradient * (1 + gradient.sum().item())  # break for backward_of_an_operator


item_in_backward.register_autograd(_backward)


def operator_without_a_fake(x):  # fails
    return no_fake(x) + 1  # fails


def operator_with_a_wrong_fake(x):  # fails
    return wrong_fake(x) @ torch.ones(8, 8)  # fails


def backward_of_an_operator(x):  # breaks-by-default; train
    return item_in_backward(x) + 1


def second_derivative(x):  # fails; train
    y = (x**3).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)  # break
    return gradient.sum()
