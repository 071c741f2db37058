from types import SimpleNamespace

import torch

from mpnn import Molecule


def molecule(n=7, e=12, node=6, edge=3):
    return torch.randn(n, node), torch.randint(0, n, (2, e)), torch.randn(e, edge)


if __name__ == "__main__":
    net = Molecule(SimpleNamespace(node=6, edge=3, hidden=16, rounds=2))
    print(net(*molecule()))
