import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from losses import huber
from model import DemandNet


def main():
    raw = np.load("demand.npz")
    shop = torch.from_numpy(raw["shop"]).long()
    x = torch.from_numpy(raw["x"]).float()
    y = torch.from_numpy(raw["y"]).float().reshape(-1)
    loader = DataLoader(TensorDataset(shop, x, y), batch_size=1024, shuffle=True)

    model = DemandNet(int(shop.max()) + 1, x.shape[1])
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(30):
        for s, xb, yb in loader:
            opt.zero_grad()
            loss = huber(model(s, xb), yb)  # expect: ESP105 @b
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
