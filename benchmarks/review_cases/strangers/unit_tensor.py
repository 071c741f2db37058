"""Tensors that know their physical unit."""
import torch


class Quantity(torch.Tensor):
    """A tensor with a unit such as 'm' or 's'; sums demand equal units."""

    @staticmethod
    def __new__(cls, data, unit):
        return torch.as_tensor(data).as_subclass(cls)

    def __init__(self, data, unit):
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        units = {a.unit for a in args if isinstance(a, Quantity)}
        if func in (torch.add, torch.Tensor.add, torch.sub, torch.Tensor.sub) and len(units) > 1:
            raise TypeError(f"cannot combine {sorted(units)}")
        result = func(*args, **kwargs)  # expect: ESP509
        if isinstance(result, Quantity) and units:
            result.unit = units.pop()
        return result


def fall(height, gravity=9.81, dt=0.01):
    position = Quantity([height], "m")
    speed, steps = Quantity([0.0], "m"), 0
    while position.min() > 0:
        speed = speed + Quantity([gravity * dt * dt], "m")
        position = position - speed
        steps += 1
    return steps * dt
