import torch
from torch.utils._pytree import tree_map


class QTensor(torch.Tensor):
    """Eight-bit values with a scale; computes in float."""

    @staticmethod
    def __new__(cls, q, scale):
        return torch.Tensor._make_wrapper_subclass(cls, q.shape, dtype=torch.float32, device=q.device)

    def __init__(self, q, scale):
        super().__init__()
        self.q, self.scale = q, scale

    @classmethod
    def quantize(cls, x):
        scale = x.abs().max().clamp_min(1e-8) / 127
        return cls((x / scale).round().clamp(-128, 127).to(torch.int8), scale)

    def dequantize(self):
        return self.q.to(torch.float32) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrap = lambda t: t.dequantize() if isinstance(t, QTensor) else t
        return func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))


class NamedTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, data, name):
        out = torch.as_tensor(data).as_subclass(cls)
        out.name_ = name
        return out

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        return out.as_subclass(cls) if type(out) is torch.Tensor else out


def linear(x, w: QTensor):
    return torch.nn.functional.linear(x, w)
