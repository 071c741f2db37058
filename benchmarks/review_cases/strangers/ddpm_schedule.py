"""Denoising diffusion of 32x32 sprites."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Schedule:
    def __init__(self, steps=1000, first=1e-4, last=0.02):
        self.steps = steps
        self.betas = torch.linspace(first, last, steps)
        self.alpha_bars = torch.cumprod(1 - self.betas, dim=0)

    def noised(self, x, t, noise):
        bar = self.alpha_bars[t].view(-1, 1, 1, 1)  # expect: ESP104 @bars
        return bar.sqrt() * x + (1 - bar).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, width=64, steps=1000):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)[:, :, None, None]
        return self.out(h + self.mid(h))


def train(loader, epochs=100):
    device = torch.device("cuda:0")
    net = Denoiser().to(device)
    schedule = Schedule()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4)
    for epoch in range(epochs):
        for sprites in loader:
            sprites = sprites.to(device)
            t = torch.randint(0, schedule.steps, (len(sprites),), device=device)
            noise = torch.randn_like(sprites)
            noisy = schedule.noised(sprites, t, noise)  # expect: ESP104 @bars
            loss = F.mse_loss(net(noisy, t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
    torch.save(net.state_dict(), "sprites.pt")
