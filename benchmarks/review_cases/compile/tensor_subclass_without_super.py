import torch


class BoxTensor(torch.Tensor):
    """Boxes that remember their format."""

    @staticmethod
    def __new__(cls, data, fmt="xyxy"):
        obj = torch.as_tensor(data, dtype=torch.float32).as_subclass(cls)
        obj.fmt = fmt
        return obj

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        fmt = next((a.fmt for a in args if isinstance(a, cls)), "xyxy")
        out = func(*args, **kwargs)  # expect: ESP509
        if isinstance(out, torch.Tensor) and out.shape[-1:] == (4,):
            out = out.as_subclass(cls)
            out.fmt = fmt
        return out


def to_cxcywh(boxes: BoxTensor) -> BoxTensor:
    x0, y0, x1, y1 = boxes.unbind(-1)
    out = torch.stack([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0], -1)
    return BoxTensor(out, "cxcywh")


def area(boxes):
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
