"""Soft actor-critic with automatic temperature."""
import copy
import math

import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal


def mlp(i, o, h=256):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.net = mlp(obs, 2 * act)

    def forward(self, s):
        mu, log_std = self.net(s).chunk(2, dim=-1)
        d = Normal(mu, log_std.clamp(-5, 2).exp())
        u = d.rsample()
        logp = d.log_prob(u) - 2 * (math.log(2) - u - F.softplus(-2 * u))
        return torch.tanh(u), logp.sum(dim=-1)


class TwinQ(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.q1, self.q2 = mlp(obs + act, 1), mlp(obs + act, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class SAC:
    def __init__(self, obs, act, lr=3e-4, gamma=0.99, tau=0.005):
        self.gamma, self.tau, self.target_entropy = gamma, tau, -float(act)
        self.actor, self.q = Actor(obs, act), TwinQ(obs, act)
        self.q_t = copy.deepcopy(self.q).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.oa = torch.optim.Adam(self.actor.parameters(), lr)
        self.oq = torch.optim.Adam(self.q.parameters(), lr)
        self.ot = torch.optim.Adam([self.log_alpha], lr)

    @property
    def alpha(self):
        return self.log_alpha.detach().exp()

    def update(self, s, a, r, s2, d):
        with torch.no_grad():
            a2, lp2 = self.actor(s2)
            soft = torch.min(*self.q_t(s2, a2)) - self.alpha * lp2
            y = r + self.gamma * (1 - d) * soft
        q1, q2 = self.q(s, a)
        q_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.oq.zero_grad()
        q_loss.backward()
        self.oq.step()

        pi, lp = self.actor(s)
        a_loss = (self.alpha * lp - torch.min(*self.q(s, pi))).mean()
        self.oa.zero_grad()
        a_loss.backward()
        self.oa.step()

        t_loss = -(self.log_alpha * (lp.detach() + self.target_entropy)).mean()
        self.ot.zero_grad()
        t_loss.backward()
        self.ot.step()
        with torch.no_grad():
            for pt, p in zip(self.q_t.parameters(), self.q.parameters()):
                pt.lerp_(p, self.tau)


class Memory:
    def __init__(self, cap, obs, act):
        self.cols = [torch.zeros(cap, obs), torch.zeros(cap, act), torch.zeros(cap), torch.zeros(cap, obs), torch.zeros(cap)]
        self.cap, self.n = cap, 0

    def add(self, *row):
        for c, v in zip(self.cols, row):
            c[self.n % self.cap] = torch.as_tensor(v, dtype=torch.float32)
        self.n += 1

    def sample(self, k):
        idx = torch.randint(min(self.n, self.cap), (k,))
        return [c[idx] for c in self.cols]


def main(env_id="Reacher-v4", steps=200_000, warm=5_000):
    torch.manual_seed(0)
    env = gym.make(env_id)
    od, ad = env.observation_space.shape[0], env.action_space.shape[0]
    agent, mem = SAC(od, ad), Memory(steps, od, ad)
    s, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for t in range(steps):
        if t < warm:
            a = env.action_space.sample()
        else:
            with torch.no_grad():
                a = agent.actor(torch.as_tensor(s, dtype=torch.float32))[0].numpy()
        s2, r, term, trunc, _ = env.step(a)
        mem.add(s, a, r, s2, term)
        s = env.reset()[0] if term or trunc else s2
        if t >= warm:
            agent.update(*mem.sample(256))


if __name__ == "__main__":
    main()
