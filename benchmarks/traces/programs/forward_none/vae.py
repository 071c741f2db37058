import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, n=12, z=3):
        super().__init__()
        self.enc = nn.Linear(n, 2 * z)
        self.dec = nn.Linear(z, n)

    def encode(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        return mu, logvar

    def sample(self, mu, logvar):
        std = (0.5 * logvar).exp()
        z = mu + std * torch.randn_like(std)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.sample(mu, logvar)
        return self.dec(z), mu, logvar
