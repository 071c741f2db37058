import torch
from torch import nn


def mlp(sizes, last=None):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    layers.pop()
    if last is not None:
        layers.append(last)
    return nn.Sequential(*layers)


class Adversaries:
    def __init__(self, z_dim=8, x_dim=2):
        self.z_dim = z_dim
        self.maker = mlp([z_dim, 32, x_dim])
        self.judge = mlp([x_dim, 32, 1])
        self.maker_opt = torch.optim.Adam(self.maker.parameters(), lr=1e-4, betas=(0.0, 0.9))
        self.judge_opt = torch.optim.Adam(self.judge.parameters(), lr=1e-4, betas=(0.0, 0.9))

    def judge_loss(self, real, fake):
        return self.judge(fake.detach()).mean() - self.judge(real).mean()

    def maker_loss(self, fake):
        return -self.judge(fake).mean()

    def update(self, real):
        z = torch.randn(len(real), self.z_dim)
        fake = self.maker(z)
        d_loss = self.judge_loss(real, fake)
        g_loss = self.maker_loss(fake)

        self.judge_opt.zero_grad()
        d_loss.backward()
        self.judge_opt.step()

        self.maker_opt.zero_grad()
        g_loss.backward()
        self.maker_opt.step()
        return d_loss.item(), g_loss.item()
