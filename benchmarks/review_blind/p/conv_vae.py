import os
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.utils import save_image


@dataclass
class VAEConfig:
    z_dim: int = 32
    width: int = 32
    beta: float = 1.0
    batch: int = 128
    lr: float = 1e-3
    epochs: int = 25
    out: str = "runs/vae"


class Encoder(nn.Module):
    def __init__(self, w, z):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 4, 2, 1), nn.ReLU(), nn.Flatten())
        self.mu = nn.Linear(2 * w * 49, z)
        self.logvar = nn.Linear(2 * w * 49, z)

    def forward(self, x):
        h = self.conv(x)
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, w, z):
        super().__init__()
        self.w = w
        self.fc = nn.Linear(z, 2 * w * 49)
        self.up = nn.Sequential(
            nn.ReLU(), nn.ConvTranspose2d(2 * w, w, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(w, 1, 4, 2, 1))

    def forward(self, z):
        return self.up(self.fc(z).view(-1, 2 * self.w, 7, 7))


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = Encoder(cfg.width, cfg.z_dim)
        self.dec = Decoder(cfg.width, cfg.z_dim)

    def reparameterize(self, mu, logvar):
        std = torch.exp(logvar)
        return mu + std * torch.randn_like(std)

    def forward(self, x):
        mu, logvar = self.enc(x)
        z = self.reparameterize(mu, logvar)
        return self.dec(z), mu, logvar

    @torch.no_grad()
    def sample(self, n, z_dim, device):
        return torch.sigmoid(self.dec(torch.randn(n, z_dim, device=device)))


def elbo(logits, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / x.size(0)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=0).mean()
    return rec + beta * kl, rec, kl


def main():
    cfg = VAEConfig()
    os.makedirs(cfg.out, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    ds = datasets.FashionMNIST("data", train=True, download=True, transform=transforms.ToTensor())
    loader = DataLoader(ds, cfg.batch, shuffle=True, num_workers=4, drop_last=True)
    model = VAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), cfg.lr)
    for epoch in range(cfg.epochs):
        model.train()
        for i, (x, _) in enumerate(loader):
            x = x.to(device)
            loss, rec, kl = elbo(*_args(model, x), cfg.beta)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 200 == 0:
                print(f"[{epoch}/{i}] rec {rec.item():.2f} kl {kl.item():.2f}")
        model.eval()
        save_image(model.sample(64, cfg.z_dim, device), f"{cfg.out}/{epoch:03d}.png")


def _args(model, x):
    logits, mu, logvar = model(x)
    return logits, x, mu, logvar


if __name__ == "__main__":
    main()
