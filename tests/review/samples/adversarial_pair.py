"""Two networks that train against each other; gradients flow through a network that is not stepped."""

import torch
from torch import nn
from torch.nn import functional as F


class Generator(nn.Module):
    def __init__(self, noise=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(noise, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, device=real.device)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (slopes,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slopes.norm(2, dim=1) - 1) ** 2).mean()


def train(loader, device, epochs=5, every=5):
    generator, critic = Generator().to(device), Critic().to(device)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.5, 0.9))
    c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.5, 0.9))
    fixed = torch.randn(16, 64, device=device)
    for epoch in range(epochs):
        for i, (real, _) in enumerate(loader):
            real = real.flatten(1).to(device)
            c_optimizer.zero_grad()
            fake = generator(torch.randn(len(real), 64, device=device)).detach()
            c_loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
            c_loss.backward()
            c_optimizer.step()
            if i % every == 0:
                g_optimizer.zero_grad()
                g_loss = -critic(generator(torch.randn(len(real), 64, device=device))).mean()
                g_loss.backward()
                g_optimizer.step()
            if i % 100 == 0:
                print(epoch, i, c_loss.item(), g_loss.item())
        with torch.no_grad():
            sheet = generator(fixed).cpu().view(-1, 1, 28, 28)
        torch.save(sheet, f"sheet{epoch}.pt")
    return generator, F.sigmoid
