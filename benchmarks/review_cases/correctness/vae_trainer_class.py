import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader


class VAE(nn.Module):
    def __init__(self, latent=20):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
        self.mu, self.logvar = nn.Linear(400, latent), nn.Linear(400, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 400), nn.ReLU(), nn.Linear(400, 784))

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        h = self.enc(x.flatten(1))
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(self.reparameterize(mu, logvar)), mu, logvar


def elbo(recon_logits, x, mu, logvar):
    bce = F.binary_cross_entropy_with_logits(recon_logits, x.flatten(1), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (bce + kld) / x.size(0)


class Trainer:
    def __init__(self, model: nn.Module, train_dl: DataLoader, val_dl: DataLoader, lr: float = 1e-3):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.train_dl, self.val_dl = train_dl, val_dl
        self.optimizer = optim.Adam(self.model.parameters(), lr=lr)
        self.history = []

    def _step(self, x):
        recon, mu, logvar = self.model(x)
        return elbo(recon, x, mu, logvar)

    def train_epoch(self):
        self.model.train()
        total, n = torch.zeros((), device=self.device), 0
        for x, _ in self.train_dl:
            x = x.to(self.device)
            loss = self._step(x)
            loss.backward()  # expect: ESP101
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            total += loss.detach()
            n += 1
        return (total / n).item()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self._step(x.to(self.device)) for x, _ in self.val_dl]
        return torch.stack(losses).mean().item()

    def fit(self, epochs):
        for epoch in range(epochs):
            tr = self.train_epoch()
            va = self.validate()
            self.history.append((tr, va))
            print(epoch, tr, va)
