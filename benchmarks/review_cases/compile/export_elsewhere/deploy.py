import argparse

import torch

from detector import Detector


def load(path):
    model = Detector(classes=3)
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("weights")
    ap.add_argument("--out", default="detector.pt2")
    args = ap.parse_args()
    model = load(args.weights)
    program = torch.export.export(model, (torch.randn(1, 3, 320, 320),))  # expect: ESP513
    torch.export.save(program, args.out)
    print(program.graph_signature)


if __name__ == "__main__":
    main()
