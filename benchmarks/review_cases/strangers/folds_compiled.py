"""Five folds of a soil-moisture model."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SoilNet(nn.Module):
    def __init__(self, bands=13):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(bands, 64), nn.SiLU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.SiLU())
        self.out = nn.Linear(64, 1)

    def forward(self, bands):
        return self.out(self.net(bands)).squeeze(-1)


def augment(bands, moisture, noise):
    return bands + noise * torch.randn_like(bands), moisture


def train_fold(model, loader, epochs, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for epoch in range(epochs):
        for bands, moisture in loader:
            mixed = torch.compile(augment)  # expect: ESP504
            bands, moisture = mixed(bands.to(device), moisture.to(device), 0.01)
            loss = F.huber_loss(model(bands), moisture)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 20 == 0:
            print(f"{epoch}: {loss.item():.4f}")
    return model


def main(folds, epochs=100, device="cuda"):
    return [train_fold(SoilNet().to(device), loader, epochs, device) for loader in folds]
