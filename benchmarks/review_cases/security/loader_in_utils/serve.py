import argparse

import torch
import torch.nn as nn

from io_utils import newest, read_checkpoint


class Regressor(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.f(x).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    args = ap.parse_args()
    state = read_checkpoint(newest(args.folder))
    model = Regressor(state["d"])
    model.load_state_dict(state["model"])
    model.eval()
    with torch.inference_mode():
        print(model(torch.randn(3, state["d"])))


if __name__ == "__main__":
    main()
