import tempfile

import torch
from torch import nn

from ckpt import restore, store


def build():
    model = nn.Linear(3, 2)
    return model, torch.optim.AdamW(model.parameters())


if __name__ == "__main__":
    path = tempfile.mktemp(suffix=".pt")
    model, optimizer = build()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    store(path, model=model, optim=optimizer)
    restore(path, *build())
