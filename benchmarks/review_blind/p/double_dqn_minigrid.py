"""Double DQN with soft target updates and a dueling head."""
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Hyper:
    gamma: float = 0.98
    tau: float = 0.005
    lr: float = 3e-4
    batch: int = 256
    capacity: int = 200_000
    start: int = 2_000
    steps: int = 150_000


class Dueling(nn.Module):
    def __init__(self, obs, act, h=128):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(obs, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.v, self.a = nn.Linear(h, 1), nn.Linear(h, act)

    def forward(self, x):
        h = self.f(x)
        a = self.a(h)
        return self.v(h) + a - a.mean(dim=-1, keepdim=True)


class RingBuffer:
    """Column tensors of shape (capacity, k)."""

    def __init__(self, cap, obs, device):
        z = lambda k, dt=torch.float32: torch.zeros(cap, k, dtype=dt, device=device)
        self.s, self.s2 = z(obs), z(obs)
        self.a, self.r, self.d = z(1, torch.int64), z(1), z(1)
        self.cap, self.pos, self.size = cap, 0, 0

    def add(self, s, a, r, s2, d):
        i = self.pos
        self.s[i], self.s2[i] = torch.as_tensor(s), torch.as_tensor(s2)
        self.a[i], self.r[i], self.d[i] = int(a), float(r), float(d)
        self.pos = (i + 1) % self.cap
        self.size = min(self.size + 1, self.cap)

    def sample(self, n):
        idx = torch.randint(self.size, (n,), device=self.s.device)
        return self.s[idx], self.a[idx], self.r[idx], self.s2[idx], self.d[idx]


class Learner:
    def __init__(self, obs, act, hp, device):
        self.hp, self.act_dim = hp, act
        self.online, self.target = Dueling(obs, act).to(device), Dueling(obs, act).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=hp.lr)

    @torch.no_grad()
    def bootstrap(self, r, s2, d):
        best = self.online(s2).argmax(dim=1, keepdim=True)
        nxt = self.target(s2).gather(1, best)
        return r + self.hp.gamma * (1.0 - d) * nxt

    @torch.no_grad()
    def polyak(self):
        for pt, po in zip(self.target.parameters(), self.online.parameters()):
            pt.mul_(1.0 - self.hp.tau).add_(po, alpha=self.hp.tau)

    def learn(self, batch):
        s, a, r, s2, d = batch
        q = self.online(s).gather(1, a)
        loss = F.huber_loss(q, self.bootstrap(r, s2, d))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.polyak()

    @torch.no_grad()
    def act(self, s, eps, rng, device):
        if rng.random() < eps:
            return int(rng.integers(self.act_dim))
        q = self.online(torch.as_tensor(s, dtype=torch.float32, device=device))
        return q.argmax().item()


def main(env_id="Acrobot-v1", seed=0):
    hp = Hyper()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch.device("cpu")
    env = gym.make(env_id)
    n_obs, n_act = env.observation_space.shape[0], int(env.action_space.n)
    learner = Learner(n_obs, n_act, hp, device)
    buf = RingBuffer(hp.capacity, n_obs, device)
    s, _ = env.reset(seed=seed)
    ret = 0.0
    for t in range(hp.steps):
        a = learner.act(s, max(0.05, 1 - t / 30_000), rng, device)
        s2, r, terminated, truncated, _ = env.step(a)
        buf.add(s, a, r, s2, terminated)
        ret += r
        s = s2
        if terminated or truncated:
            print(t, ret)
            s, _ = env.reset()
            ret = 0.0
        if buf.size >= hp.start:
            learner.learn(buf.sample(hp.batch))


if __name__ == "__main__":
    main()
