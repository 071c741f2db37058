"""Synchronous advantage actor-critic with GAE."""
import argparse

import gymnasium as gym
import torch
import torch.nn as nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_act, hid=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hid), nn.Tanh(), nn.Linear(hid, hid), nn.Tanh())
        self.pi = nn.Linear(hid, n_act)
        self.v = nn.Linear(hid, 1)

    def forward(self, x):
        h = self.trunk(x)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Rollout:
    def __init__(self):
        self.logp, self.values, self.rewards, self.nonterm, self.ent = [], [], [], [], []

    def add(self, logp, value, reward, done, ent):
        self.logp.append(logp)
        self.values.append(value)
        self.rewards.append(torch.as_tensor(reward, dtype=torch.float32))
        self.nonterm.append(1.0 - torch.as_tensor(done, dtype=torch.float32))
        self.ent.append(ent)

    def gae(self, last_value, gamma, lam):
        adv, out = torch.zeros_like(last_value), []
        nxt = last_value
        for t in reversed(range(len(self.rewards))):
            delta = self.rewards[t] + gamma * nxt * self.nonterm[t] - self.values[t]
            adv = delta + gamma * lam * self.nonterm[t] * adv
            out.append(adv)
            nxt = self.values[t]
        out.reverse()
        return torch.stack(out)


def compute_losses(roll, last_value, gamma, lam):
    adv = roll.gae(last_value, gamma, lam)
    values = torch.stack(roll.values)
    returns = (adv + values).detach()
    logp = torch.stack(roll.logp)
    pg = -(logp * adv).mean()
    vf = 0.5 * (returns - values).pow(2).mean()
    ent = torch.stack(roll.ent).mean()
    return pg, vf, ent


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--env", default="CartPole-v1")
    ap.add_argument("--n-envs", type=int, default=8)
    ap.add_argument("--horizon", type=int, default=32)
    ap.add_argument("--updates", type=int, default=2000)
    args = ap.parse_args()
    torch.manual_seed(3)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env).unwrapped for _ in range(args.n_envs)])
    net = ActorCritic(envs.single_observation_space.shape[0], envs.single_action_space.n)
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, eps=1e-5, alpha=0.99)
    obs, _ = envs.reset(seed=3)
    for it in range(args.updates):
        roll = Rollout()
        for _ in range(args.horizon):
            dist, value = net(torch.as_tensor(obs, dtype=torch.float32))
            action = dist.sample()
            obs, rew, term, _, _ = envs.step(action.numpy())
            roll.add(dist.log_prob(action), value, rew, term, dist.entropy())
        with torch.no_grad():
            _, last_value = net(torch.as_tensor(obs, dtype=torch.float32))
        pg, vf, ent = compute_losses(roll, last_value, 0.99, 0.95)
        loss = pg + 0.5 * vf - 0.01 * ent
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if it % 100 == 0:
            print(it, f"pg {pg.item():.3f} vf {vf.item():.3f} ent {ent.item():.3f}")


if __name__ == "__main__":
    main()
