"""Conditional WGAN-GP for synthetic customer tables."""
import torch
import torch.nn as nn


class Residual(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.fc = nn.Linear(i, o)
        self.bn = nn.BatchNorm1d(o)

    def forward(self, x):
        return torch.cat([torch.relu(self.bn(self.fc(x))), x], dim=1)


class Generator(nn.Module):
    def __init__(self, noise_dim, cond_dim, data_dim, widths=(256, 256)):
        super().__init__()
        dim, layers = noise_dim + cond_dim, []
        for w in widths:
            layers.append(Residual(dim, w))
            dim += w
        layers.append(nn.Linear(dim, data_dim))
        self.seq = nn.Sequential(*layers)

    def forward(self, z, cond):
        return torch.tanh(self.seq(torch.cat([z, cond], dim=1)))


class Critic(nn.Module):
    def __init__(self, data_dim, cond_dim, widths=(256, 256), pac=10):
        super().__init__()
        self.pac = pac
        dim, layers = (data_dim + cond_dim) * pac, []
        for w in widths:
            layers += [nn.Linear(dim, w), nn.LeakyReLU(0.2), nn.Dropout(0.5)]
            dim = w
        layers.append(nn.Linear(dim, 1))
        self.seq = nn.Sequential(*layers)

    def forward(self, x):
        return self.seq(x.reshape(x.size(0) // self.pac, -1))

    def gradient_penalty(self, real, fake, lambda_=10.0):
        alpha = torch.rand(real.size(0) // self.pac, 1, 1, device=real.device)
        alpha = alpha.expand(-1, self.pac, real.size(1)).reshape(-1, real.size(1))
        mixed = (alpha * real + (1 - alpha) * fake).detach().requires_grad_(True)
        scores = self(mixed)
        grads = torch.autograd.grad(outputs=scores, inputs=mixed,
                                    grad_outputs=torch.ones_like(scores),
                                    retain_graph=True)[0]
        norm = grads.reshape(-1, self.pac * real.size(1)).norm(2, dim=1)
        return lambda_ * ((norm - 1) ** 2).mean()


class TableGAN:
    def __init__(self, data_dim, cond_dim, noise_dim=128, pac=10, critic_steps=5, device="cuda"):
        self.noise_dim, self.critic_steps, self.device = noise_dim, critic_steps, device
        self.generator = Generator(noise_dim, cond_dim, data_dim).to(device)
        self.critic = Critic(data_dim, cond_dim, pac=pac).to(device)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), 2e-4, betas=(0.5, 0.9),
                                      weight_decay=1e-6)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), 2e-4, betas=(0.5, 0.9))

    def _fake(self, cond):
        z = torch.randn(cond.size(0), self.noise_dim, device=self.device)
        return torch.cat([self.generator(z, cond), cond], dim=1)

    def critic_step(self, real, cond):
        with torch.no_grad():
            fake = self._fake(cond)
        real = torch.cat([real, cond], dim=1)
        penalty = self.critic.gradient_penalty(real, fake)
        loss = self.critic(fake).mean() - self.critic(real).mean() + penalty
        self.opt_c.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_c.step()
        return loss.item()

    def generator_step(self, cond):
        loss = -self.critic(self._fake(cond)).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        return loss.item()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for step, (real, cond) in enumerate(loader):
                real, cond = real.to(self.device), cond.to(self.device)
                loss_c = self.critic_step(real, cond)
                if (step + 1) % self.critic_steps == 0:
                    self.generator_step(cond)
            print(f"{epoch}: critic {loss_c:.3f}")
