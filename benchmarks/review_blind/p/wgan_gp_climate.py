"""WGAN-GP for downscaled precipitation patches."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Critic(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(c, 2 * c, 4, 2, 1), nn.InstanceNorm2d(2 * c, affine=True), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * c, 4 * c, 4, 2, 1), nn.InstanceNorm2d(4 * c, affine=True), nn.LeakyReLU(0.2),
            nn.Conv2d(4 * c, 1, 4))

    def forward(self, x):
        return self.net(x).flatten()


class Generator(nn.Module):
    def __init__(self, z=100, c=64):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, 4 * c, 4), nn.BatchNorm2d(4 * c), nn.ReLU(),
            nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.BatchNorm2d(c), nn.ReLU(),
            nn.ConvTranspose2d(c, 1, 4, 2, 1), nn.Softplus())

    def forward(self, z):
        return self.net(z[:, :, None, None])

    def sample(self, n, device):
        return self(torch.randn(n, self.z, device=device))


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix)
    (grad,) = torch.autograd.grad(score.sum(), mix, create_graph=True)
    norm = (grad.flatten(1).pow(2).sum(dim=1) + 1e-12).sqrt()
    return (norm - 1).pow(2).mean()


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


class Trainer:
    def __init__(self, device, lr=1e-4, lam=10.0, n_critic=5):
        self.device, self.lam, self.n_critic = device, lam, n_critic
        self.G, self.C = Generator().to(device), Critic().to(device)
        self.og = torch.optim.Adam(self.G.parameters(), lr, betas=(0.0, 0.9))
        self.oc = torch.optim.Adam(self.C.parameters(), lr, betas=(0.0, 0.9))
        self.calls = 0

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.G.sample(real.size(0), self.device)
        loss = self.C(fake).mean() - self.C(real).mean()
        loss = loss + self.lam * gradient_penalty(self.C, real, fake)
        self.oc.zero_grad(set_to_none=True)
        loss.backward()
        self.oc.step()
        return loss.detach()

    def generator_step(self, n):
        set_grad(self.C, False)
        loss = -self.C(self.G.sample(n, self.device)).mean()
        self.og.zero_grad(set_to_none=True)
        loss.backward()
        self.og.step()
        set_grad(self.C, True)
        return loss.detach()

    def step(self, real):
        out = {"critic": self.critic_step(real)}
        self.calls += 1
        if self.calls % self.n_critic == 0:
            out["gen"] = self.generator_step(real.size(0))
        return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("patches")
    ap.add_argument("--epochs", type=int, default=100)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    x = torch.load(args.patches, map_location="cpu", weights_only=True).float().log1p()
    loader = DataLoader(TensorDataset(x), 64, shuffle=True, drop_last=True, pin_memory=True)
    tr = Trainer(device)
    for epoch in range(args.epochs):
        last = {}
        for (real,) in loader:
            last.update(tr.step(real.to(device, non_blocking=True)))
        print(epoch, {k: round(v.item(), 4) for k, v in last.items()})
        torch.save(tr.G.state_dict(), "wgan_g.pt")


if __name__ == "__main__":
    main()
