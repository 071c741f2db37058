import tempfile
from pathlib import Path

import torch

from fit import fit
from net import Regressor


def restore(path):
    state = torch.load(path)
    model = Regressor()
    model.load_state_dict(state["model"])
    return model.eval()


def main():
    path = Path(tempfile.mkdtemp()) / "best.pt"
    fit(path)
    model = restore(path)
    print(model(torch.zeros(1, 8)))


if __name__ == "__main__":
    main()
