import torch
import torch.nn as nn

from callbacks import GenerateSamples


class Generator(nn.Module):
    def __init__(self, z=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(z, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 784), nn.Sigmoid())

    def forward(self, z):
        return self.net(z)


def mmd(x, y, scales=(1, 2, 4, 8)):
    def kernel(a, b):
        d = torch.cdist(a, b).pow(2)
        return sum(torch.exp(-d / (2 * s**2)) for s in scales)

    return kernel(x, x).mean() + kernel(y, y).mean() - 2 * kernel(x, y).mean()


def train(loader, epochs=30, device="cuda"):
    gen = Generator().to(device)
    opt = torch.optim.Adam(gen.parameters(), 1e-3)
    sample = GenerateSamples(torch.randn(64, 64, device=device))
    gen.train()
    for epoch in range(epochs):
        for real, _ in loader:
            real = real.flatten(1).to(device)
            loss = mmd(gen(torch.randn(len(real), 64, device=device)), real)
            opt.zero_grad()
            loss.backward()
            opt.step()
        sample(gen, epoch)
