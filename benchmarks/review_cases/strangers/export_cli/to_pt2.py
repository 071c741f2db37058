"""Writes the network for the line's controller."""
import argparse

import torch

from nets import restore


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--out", default="defects.pt2")
    parser.add_argument("--size", type=int, default=224)
    args = parser.parse_args()

    net = restore(args.weights)
    sheet = torch.randn(4, 1, args.size, args.size)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(net, (sheet,), dynamic_shapes={"sheet": {0: batch}})  # expect: ESP513
    torch.export.save(program, args.out)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
