import torch
import torch.nn as nn
from torch.utils.data import DataLoader


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    scores = critic(mixed)
    (grad,) = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True, retain_graph=True)
    norm = (grad.flatten(1).pow(2).sum(1) + 1e-12).sqrt()
    return (norm - 1).pow(2).mean()


class WGAN:
    def __init__(self, gen, critic, z=128, n_critic=5, lam=10.0, device="cuda"):
        self.gen, self.critic = gen.to(device), critic.to(device)
        self.z, self.n_critic, self.lam, self.device = z, n_critic, lam, device
        self.g_opt = torch.optim.Adam(gen.parameters(), 1e-4, betas=(0.0, 0.9))
        self.c_opt = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.0, 0.9))

    def noise(self, n):
        return torch.randn(n, self.z, device=self.device)

    def critic_step(self, real):
        self.c_opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            fake = self.gen(self.noise(len(real)))
        loss = self.critic(fake).mean() - self.critic(real).mean() + self.lam * gradient_penalty(self.critic, real, fake)
        loss.backward()
        self.c_opt.step()

    def generator_step(self, n):
        self.critic.requires_grad_(False)
        loss = -self.critic(self.gen(self.noise(n))).mean()
        self.g_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.g_opt.step()
        self.critic.requires_grad_(True)

    def fit(self, loader: DataLoader, epochs: int):
        self.gen.train()
        self.critic.train()
        for _ in range(epochs):
            for i, (real, _) in enumerate(loader):
                self.critic_step(real.to(self.device, non_blocking=True))
                if (i + 1) % self.n_critic == 0:
                    self.generator_step(real.size(0))

    @torch.no_grad()
    def sample(self, n):
        self.gen.eval()
        images = self.gen(self.noise(n)).cpu()
        self.gen.train()
        return images
