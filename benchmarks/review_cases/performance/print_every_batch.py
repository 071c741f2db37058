import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger(__name__)


class AutoEncoder(nn.Module):
    def __init__(self, bands=200):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(bands, 64), nn.ReLU(), nn.Linear(64, 8))
        self.dec = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, bands))

    def forward(self, x):
        return self.dec(self.enc(x))


def train(cube, epochs=100, batch=65536):
    device = torch.device("cuda")
    model = AutoEncoder(cube.size(-1)).to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    pixels = cube.reshape(-1, cube.size(-1)).to(device)
    for epoch in range(epochs):
        order = torch.randperm(len(pixels), device=device)
        for i, idx in enumerate(order.split(batch)):
            x = pixels[idx]
            recon = model(x)
            loss = F.mse_loss(recon, x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"epoch {epoch} batch {i} loss {loss:.6f} out {recon[0]}")  # expect: ESP411|ESP305
    return model


def anomaly_map(model, cube):
    model.eval()
    with torch.no_grad():
        flat = cube.reshape(-1, cube.size(-1)).to("cuda")
        err = (model(flat) - flat).pow(2).mean(-1)
    log.info("mean error %.4f", err.mean().item())
    return err.view(cube.shape[:-1]).cpu()
