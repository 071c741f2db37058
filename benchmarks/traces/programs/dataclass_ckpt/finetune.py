import tempfile
from pathlib import Path

import torch
from torch import nn

from snapshots import Hyper, SnapshotStore


def network(hyper):
    return nn.Sequential(nn.Linear(4, hyper.width), nn.Dropout(hyper.dropout), nn.Linear(hyper.width, 2))


def main():
    store = SnapshotStore(Path(tempfile.mkdtemp()))
    hyper = Hyper(width=24)
    model = network(hyper)
    opt = torch.optim.SGD(model.parameters(), lr=hyper.rate)
    for step in range(3):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        store.write(model, hyper, step)
    record = store.latest()
    again = network(record["hyper"])
    again.load_state_dict(record["weights"])
    print("resumed", record["step"])


if __name__ == "__main__":
    main()
