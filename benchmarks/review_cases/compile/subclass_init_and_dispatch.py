import torch


class UnitTensor(torch.Tensor):
    """A tensor with a physical unit."""

    @staticmethod
    def __new__(cls, data, unit):
        return torch.Tensor._make_subclass(cls, torch.as_tensor(data, dtype=torch.float64))

    def __init__(self, data, unit):
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__add__ and args[0].unit != args[1].unit:
            raise TypeError("units differ")
        result = func(*args, **(kwargs or {}))  # expect: ESP509
        if isinstance(result, torch.Tensor):
            result = UnitTensor(result, getattr(args[0], "unit", None))
        return result


class Parameterised(torch.nn.Parameter):
    def __new__(cls, data, group):
        return super().__new__(cls, data)

    def __init__(self, data, group):
        self.group = group


def total(lengths):
    out = lengths[0]
    for length in lengths[1:]:
        out = out + length
    return out
