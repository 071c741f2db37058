import torch
from torch.export import Dim, export

from pooler import Pooler


def ship(model, example):
    batch = Dim("batch", min=1, max=64)
    return export(model, (example,), dynamic_shapes={"x": {0: batch}})


if __name__ == "__main__":
    program = ship(Pooler(8).eval(), torch.randn(4, 6, 8))
    print(program.graph)
