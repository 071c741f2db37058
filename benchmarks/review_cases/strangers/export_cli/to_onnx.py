"""The same network for the older controllers, which read ONNX."""
import sys

import torch

from nets import restore


def export(weights, out, size=224):
    net = restore(weights).eval()
    torch.onnx.export(  # expect: ESP514
        net,
        (torch.randn(1, 1, size, size),),
        out,
        input_names=["sheet"],
        output_names=["kinds"],
        dynamic_axes={"sheet": {0: "batch"}, "kinds": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )


if __name__ == "__main__":
    export(*sys.argv[1:3])
