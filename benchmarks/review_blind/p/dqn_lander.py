import random
from collections import deque
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    env_id: str = "LunarLander-v2"
    gamma: float = 0.99
    lr: float = 5e-4
    batch_size: int = 128
    buffer: int = 100_000
    warmup: int = 5_000
    sync_every: int = 1_000
    total_steps: int = 300_000
    eps_decay: int = 60_000


class QNet(nn.Module):
    def __init__(self, obs_dim, n_act, hidden=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, n_act))

    def forward(self, obs):
        return self.net(obs)


class Replay:
    def __init__(self, cap):
        self.buf = deque(maxlen=cap)

    def push(self, *tr):
        self.buf.append(tr)

    def sample(self, n, device):
        s, a, r, s2, d = zip(*random.sample(self.buf, n))
        to = lambda x, dt: torch.as_tensor(np.asarray(x), dtype=dt, device=device)
        return (to(s, torch.float32), to(a, torch.int64), to(r, torch.float32),
                to(s2, torch.float32), to(d, torch.float32))

    def __len__(self):
        return len(self.buf)


class Agent:
    def __init__(self, obs_dim, n_act, cfg, device):
        self.cfg, self.device, self.n_act = cfg, device, n_act
        self.q = QNet(obs_dim, n_act).to(device)
        self.q_target = QNet(obs_dim, n_act).to(device)
        self.q_target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=cfg.lr)

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(self.n_act)
        o = torch.as_tensor(obs, dtype=torch.float32, device=self.device)
        return int(self.q(o.unsqueeze(0)).argmax(dim=1))

    def td_target(self, r, s2):
        with torch.no_grad():
            best = self.q(s2).argmax(dim=1, keepdim=True)
            nxt = self.q_target(s2).gather(1, best).squeeze(1)
        return r + self.cfg.gamma * nxt

    def update(self, batch):
        s, a, r, s2, done = batch
        q_sa = self.q(s).gather(1, a.unsqueeze(1))
        target = self.td_target(r, s2)
        loss = F.smooth_l1_loss(q_sa, target)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        return loss.detach()


def main():
    cfg = Config()
    random.seed(1)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env = gym.make(cfg.env_id)
    agent = Agent(env.observation_space.shape[0], env.action_space.n, cfg, device)
    memory = Replay(cfg.buffer)
    obs, _ = env.reset(seed=1)
    ep_ret = 0.0
    for step in range(cfg.total_steps):
        eps = max(0.05, 1.0 - step / cfg.eps_decay)
        act = agent.act(obs, eps)
        nxt, rew, terminated, truncated, _ = env.step(act)
        memory.push(obs, act, rew, nxt, terminated)
        ep_ret += rew
        obs = nxt
        if terminated or truncated:
            print(f"{step} return {ep_ret:.1f}")
            obs, _ = env.reset()
            ep_ret = 0.0
        if len(memory) >= cfg.warmup:
            agent.update(memory.sample(cfg.batch_size, device))
            if step % cfg.sync_every == 0:
                agent.q_target.load_state_dict(agent.q.state_dict())


if __name__ == "__main__":
    main()
