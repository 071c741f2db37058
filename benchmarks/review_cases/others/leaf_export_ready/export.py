import sys

import torch
from torch.export import Dim

from factory import ready_for_export


def main(weights, species):
    net = ready_for_export(weights, species)
    example = (torch.randn(2, 3, 128, 128),)
    program = torch.export.export(net, example, dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
    torch.export.save(program, "leaf.pt2")
    onnx = torch.onnx.export(net, example, dynamo=True)
    onnx.save("leaf.onnx")
    again = torch.export.load("leaf.pt2").module()
    with torch.no_grad():
        torch.testing.assert_close(again(*example), net(*example))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
