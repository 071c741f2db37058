import torch

from moe import Mixture


def prepare(mode):
    model = Mixture().eval()
    if mode == "compiled":
        model = torch.compile(model, fullgraph=True, backend="eager")
    return model


if __name__ == "__main__":
    model = prepare("compiled")
    with torch.no_grad():
        for n in (4, 8):
            print(model(torch.randn(n, 16)).shape)
