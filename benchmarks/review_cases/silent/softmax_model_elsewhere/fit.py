import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nets import classifier


def fit(path="covertype.npz", epochs=25, device="cuda"):
    raw = np.load(path)
    x, y = torch.from_numpy(raw["x"]).float(), torch.from_numpy(raw["y"]).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=2048, shuffle=True, num_workers=2)
    net = classifier(x.shape[1], int(y.max()) + 1).to(device)
    loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    net.train()
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for xb, yb in loader:
            opt.zero_grad(set_to_none=True)
            loss = loss_fn(net(xb.to(device)), yb.to(device))  # expect: ESP201
            loss.backward()
            opt.step()
            total += loss.detach()
        print(epoch, (total / len(loader)).item())
    return net


if __name__ == "__main__":
    fit()
