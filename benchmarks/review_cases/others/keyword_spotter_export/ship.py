import argparse
from pathlib import Path

import torch

from spotter import trained


def to_program(weights: Path, out: Path) -> None:
    spotter = trained(weights)
    example = torch.randn(1, 40, 101)
    program = torch.export.export(spotter, (example,))  # expect: ESP513
    torch.export.save(program, out.with_suffix(".pt2"))


def to_onnx(weights: Path, out: Path) -> None:
    spotter = trained(weights).eval()
    torch.onnx.export(  # expect: ESP514
        spotter,
        (torch.randn(1, 40, 101),),
        str(out.with_suffix(".onnx")),
        input_names=["mel"],
        output_names=["logits"],
        dynamic_axes={"mel": {0: "batch"}},
        dynamo=False,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", type=Path)
    parser.add_argument("--out", type=Path, default=Path("spotter"))
    options = parser.parse_args()
    to_program(options.weights, options.out)
    to_onnx(options.weights, options.out)
