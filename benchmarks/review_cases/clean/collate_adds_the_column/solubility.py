import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from collate import collate


class Solubility(nn.Module):
    def __init__(self, d=200):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 256), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(256, 1))

    def forward(self, x):
        return self.net(x)


def fit(dataset, valid, epochs=60, device="cuda"):
    model = Solubility().to(device)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    train_dl = DataLoader(dataset, 256, shuffle=True, collate_fn=collate, num_workers=2)
    valid_dl = DataLoader(valid, 256, collate_fn=collate, num_workers=2)
    mse = nn.MSELoss()
    for epoch in range(epochs):
        model.train()
        for x, y in train_dl:
            loss = mse(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            err = torch.stack([mse(model(x.to(device)), y.to(device)) for x, y in valid_dl]).mean().sqrt()
        print(epoch, err.item())
