import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class PPO:
    def __init__(self, env_id="CartPole-v1", clip=0.2, epochs=4, minibatch=64, gamma=0.99, lam=0.95):
        self.env = gym.make(env_id)
        self.ac = ActorCritic(self.env.observation_space.shape[0], self.env.action_space.n)
        self.optim = torch.optim.Adam(self.ac.parameters(), lr=3e-4, eps=1e-5)
        self.clip, self.epochs, self.minibatch, self.gamma, self.lam = clip, epochs, minibatch, gamma, lam

    def rollout(self, n=2048):
        obs, _ = self.env.reset()
        buf = {k: [] for k in ("obs", "act", "logp", "rew", "val", "done")}
        for _ in range(n):
            with torch.no_grad():
                dist, val = self.ac(torch.as_tensor(obs, dtype=torch.float32))
                act = dist.sample()
            nxt, rew, term, trunc, _ = self.env.step(act.item())
            for k, v in zip(buf, (obs, act, dist.log_prob(act), rew, val, term or trunc)):
                buf[k].append(v)
            obs = nxt if not (term or trunc) else self.env.reset()[0]
        return buf

    def advantages(self, buf):
        rew, val = np.array(buf["rew"], dtype=np.float32), torch.stack(buf["val"]).numpy()
        done = np.array(buf["done"], dtype=np.float32)
        adv, last = np.zeros_like(rew), 0.0
        for t in reversed(range(len(rew) - 1)):
            delta = rew[t] + self.gamma * val[t + 1] * (1 - done[t]) - val[t]
            last = delta + self.gamma * self.lam * (1 - done[t]) * last
            adv[t] = last
        return torch.from_numpy(adv), torch.from_numpy(adv + val)

    def update(self, buf):
        adv, ret = self.advantages(buf)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        obs = torch.as_tensor(np.stack(buf["obs"]), dtype=torch.float32)
        act, old = torch.stack(buf["act"]), torch.stack(buf["logp"])
        for _ in range(self.epochs):
            for idx in torch.randperm(len(adv)).split(self.minibatch):
                dist, val = self.ac(obs[idx])
                ratio = (dist.log_prob(act[idx]) - old[idx]).exp()
                clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
                pg = -torch.min(ratio * adv[idx], clipped * adv[idx]).mean()
                vf = (val - ret[idx]).pow(2).mean()
                loss = pg + 0.5 * vf - 0.01 * dist.entropy().mean()
                loss.backward()  # expect: ESP101
                nn.utils.clip_grad_norm_(self.ac.parameters(), 0.5)
                self.optim.step()

    def learn(self, iterations=100):
        for it in range(iterations):
            self.update(self.rollout())
