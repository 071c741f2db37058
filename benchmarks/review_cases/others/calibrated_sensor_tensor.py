import functools

import torch

CALIBRATED = {}


def implements(*functions):
    def wrap(handler):
        for function in functions:
            CALIBRATED[function] = handler
        return handler

    return wrap


class SensorTensor(torch.Tensor):
    """Readings that remember which sensor they came from."""

    sensor: str = "unknown"

    @staticmethod
    def tagged(data, sensor):
        out = data.as_subclass(SensorTensor)
        out.sensor = sensor
        return out

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in CALIBRATED:
            return CALIBRATED[func](*args, **kwargs)
        tags = {arg.sensor for arg in args if isinstance(arg, SensorTensor)}
        out = func(*args, **kwargs)  # expect: ESP509
        if isinstance(out, SensorTensor) and len(tags) == 1:
            out.sensor = tags.pop()
        return out


@implements(torch.stack)
def stack(tensors, dim=0):
    plain = [t.as_subclass(torch.Tensor) for t in tensors]
    names = sorted({getattr(t, "sensor", "unknown") for t in tensors})
    return SensorTensor.tagged(torch.stack(plain, dim), "+".join(names))


def drift(readings, reference):
    means = [r.mean() - reference for r in readings]
    return functools.reduce(torch.add, means) / max(len(means), 1)
