"""Actor and twin critic for the manipulation baselines."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


def mlp(sizes, out_act=nn.Identity):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        layers.append(nn.ReLU() if i < len(sizes) - 2 else out_act())
    return nn.Sequential(*layers)


class TwinQ(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=256):
        super().__init__()
        self.q1 = mlp([obs_dim + act_dim, hidden, hidden, 1])
        self.q2 = mlp([obs_dim + act_dim, hidden, hidden, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=256, low=-1.0, high=1.0):
        super().__init__()
        self.trunk = mlp([obs_dim, hidden, hidden], out_act=nn.ReLU)
        self.mean = nn.Linear(hidden, act_dim)
        self.log_std = nn.Linear(hidden, act_dim)
        self.register_buffer("scale", torch.tensor((high - low) / 2.0))
        self.register_buffer("bias", torch.tensor((high + low) / 2.0))

    def dist(self, obs):
        h = self.trunk(obs)
        log_std = torch.tanh(self.log_std(h))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        return torch.distributions.Normal(self.mean(h), log_std.exp())

    def sample(self, obs):
        normal = self.dist(obs)
        u = normal.rsample()
        log_prob = normal.log_prob(u)
        log_prob = log_prob - 2 * (math.log(2.0) - u - F.softplus(-2 * u))
        log_prob = log_prob - self.scale.log()
        return torch.tanh(u) * self.scale + self.bias, log_prob.sum(-1)

    @torch.no_grad()
    def greedy(self, obs):
        return torch.tanh(self.mean(self.trunk(obs))) * self.scale + self.bias
