"""WGAN-GP on aligned faces; one generator pass feeds both updates."""
import torch
import torch.nn as nn


def up(cin, cout):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(cin, cout, 3, 1, 1),
                         nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 4, 2, 1), nn.GroupNorm(8, cout),
                         nn.LeakyReLU(0.2, inplace=True))


class FaceGenerator(nn.Module):
    def __init__(self, z_dim=128, width=512):
        super().__init__()
        self.fc = nn.Linear(z_dim, width * 16)
        self.width = width
        self.body = nn.Sequential(up(width, 256), up(256, 128), up(128, 64), up(64, 32),
                                  nn.Conv2d(32, 3, 3, 1, 1), nn.Tanh())

    def forward(self, z):
        return self.body(self.fc(z).view(-1, self.width, 4, 4))


class FaceCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(down(3, 64), down(64, 128), down(128, 256), down(256, 512))
        self.fc = nn.Linear(512 * 16, 1)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1)).squeeze(1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = torch.lerp(fake, real, eps).requires_grad_(True)
    score = critic(mixed)
    grad, = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    return (grad.flatten(1).norm(2, dim=1) - 1).pow(2).mean()


class FaceTrainer:
    def __init__(self, z_dim=128, lr=1e-4, critic_steps=5, gp_weight=10.0, device="cuda"):
        self.g, self.d = FaceGenerator(z_dim).to(device), FaceCritic().to(device)
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr, betas=(0.0, 0.9))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr, betas=(0.0, 0.9))
        self.z_dim, self.critic_steps = z_dim, critic_steps
        self.gp_weight, self.device = gp_weight, device
        self.step = 0

    def train_batch(self, real):
        real = real.to(self.device, non_blocking=True)
        z = torch.randn(real.size(0), self.z_dim, device=self.device)
        self.step += 1
        update_g = self.step % self.critic_steps == 0
        with torch.set_grad_enabled(update_g):
            fake = self.g(z)
        frozen = fake.detach()
        loss_d = self.d(frozen).mean() - self.d(real).mean()
        loss_d = loss_d + self.gp_weight * gradient_penalty(self.d, real, frozen)
        self.opt_d.zero_grad(set_to_none=True)
        loss_d.backward()
        self.opt_d.step()
        if update_g:
            loss_g = -self.d(fake).mean()
            self.opt_g.zero_grad(set_to_none=True)
            loss_g.backward()
            self.opt_g.step()
        return loss_d.detach()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            total = torch.zeros((), device=self.device)
            for real, _ in loader:
                total += self.train_batch(real)
            print(epoch, total.item() / len(loader))

    @torch.no_grad()
    def sample(self, n):
        self.g.eval()
        images = self.g(torch.randn(n, self.z_dim, device=self.device))
        self.g.train()
        return images.add(1).div(2).clamp(0, 1)
