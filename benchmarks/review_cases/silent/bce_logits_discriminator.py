"""WaveGAN-like discriminator with a sigmoid at its end."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WaveDiscriminator(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, ch, 25, stride=4, padding=11), nn.LeakyReLU(0.2),
            nn.Conv1d(ch, ch * 2, 25, stride=4, padding=11), nn.LeakyReLU(0.2),
            nn.Conv1d(ch * 2, ch * 4, 25, stride=4, padding=11), nn.LeakyReLU(0.2),
        )
        self.head = nn.Linear(ch * 4, 1)

    def forward(self, wave):
        pooled = self.body(wave).mean(-1)
        return torch.sigmoid(self.head(pooled)).squeeze(1)


class WaveGenerator(nn.Module):
    def __init__(self, z=100, ch=32):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(z, ch * 4 * 64)
        self.up = nn.Sequential(
            nn.ConvTranspose1d(ch * 4, ch * 2, 24, 4, 10), nn.ReLU(),
            nn.ConvTranspose1d(ch * 2, ch, 24, 4, 10), nn.ReLU(),
            nn.ConvTranspose1d(ch, 1, 24, 4, 10), nn.Tanh(),
        )

    def forward(self, z):
        return self.up(self.fc(z).view(-1, self.ch * 4, 64))


def train(loader, epochs, device):
    gen, disc = WaveGenerator().to(device), WaveDiscriminator().to(device)
    g_opt = torch.optim.Adam(gen.parameters(), 1e-4, betas=(0.5, 0.9))
    d_opt = torch.optim.Adam(disc.parameters(), 1e-4, betas=(0.5, 0.9))
    for _ in range(epochs):
        for wave in loader:
            wave = wave.to(device)
            z = torch.randn(wave.size(0), 100, device=device)
            d_opt.zero_grad()
            real, fake = disc(wave), disc(gen(z).detach())
            d_loss = F.binary_cross_entropy_with_logits(real, torch.ones_like(real))  # expect: ESP201
            d_loss = d_loss + F.binary_cross_entropy_with_logits(fake, torch.zeros_like(fake))  # allow: ESP201
            d_loss.backward()
            d_opt.step()

            g_opt.zero_grad()
            scores = disc(gen(z))
            g_loss = F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))  # allow: ESP201
            g_loss.backward()
            g_opt.step()
