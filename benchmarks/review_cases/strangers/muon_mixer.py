"""MLP-mixer on tiny galaxies, trained with Muon."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.within = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.n2(x))


class GalaxyMixer(nn.Module):
    def __init__(self, shapes=10, dim=128, depth=6, patch=8, size=64):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.mix = nn.Sequential(*[Mixer((size // patch) ** 2, dim) for _ in range(depth)])
        self.out = nn.Linear(dim, shapes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        return self.out(self.mix(x).mean(1))


def train(loader, epochs=20, device="cuda"):
    net = GalaxyMixer().to(device)
    optimizer = torch.optim.Muon(net.parameters(), lr=0.02, momentum=0.95, weight_decay=0.1)  # expect: ESP508
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    compiled = torch.compile(net)
    for epoch in range(epochs):
        net.train()
        for image, shape in loader:
            loss = F.cross_entropy(compiled(image.to(device)), shape.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        print(epoch, loss.item())
    return net
