import argparse

import gymnasium as gym
import torch
import torch.nn as nn
from torch.distributions import Normal


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, o))


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.mu = mlp(obs_dim, act_dim)
        self.v = mlp(obs_dim, 1)
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def dist(self, obs):
        return Normal(self.mu(obs), self.log_std.exp())

    def value(self, obs):
        return self.v(obs).squeeze(-1)

    def evaluate(self, obs, act):
        d = self.dist(obs)
        return d.log_prob(act), d.entropy().sum(-1), self.value(obs)


class Buffer:
    def __init__(self, n, obs_dim, act_dim):
        self.obs, self.act = torch.zeros(n, obs_dim), torch.zeros(n, act_dim)
        self.logp = torch.zeros(n, act_dim)
        self.rew, self.val, self.done = torch.zeros(n), torch.zeros(n), torch.zeros(n)

    def returns(self, last_val, gamma, lam):
        adv, run, nxt = torch.zeros_like(self.rew), 0.0, last_val
        for t in reversed(range(len(self.rew))):
            live = 1.0 - self.done[t]
            delta = self.rew[t] + gamma * nxt * live - self.val[t]
            run = delta + gamma * lam * live * run
            adv[t] = run
            nxt = self.val[t]
        return adv, adv + self.val


class PPO:
    def __init__(self, pi, lr=3e-4, clip=0.2, epochs=10, mb=64):
        self.pi, self.clip, self.epochs, self.mb = pi, clip, epochs, mb
        self.opt = torch.optim.Adam(pi.parameters(), lr=lr, eps=1e-5)

    def update(self, buf, adv, ret):
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        n = len(adv)
        for _ in range(self.epochs):
            for idx in torch.randperm(n).split(self.mb):
                logp, ent, v = self.pi.evaluate(buf.obs[idx], buf.act[idx])
                ratio = (logp - buf.logp[idx]).exp()
                a = adv[idx].unsqueeze(-1)
                pg = -torch.min(ratio * a, ratio.clamp(1 - self.clip, 1 + self.clip) * a).mean()
                vf = 0.5 * (v - ret[idx]).pow(2).mean()
                loss = pg + 0.5 * vf - 0.001 * ent.mean()
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.pi.parameters(), 0.5)
                self.opt.step()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--env", default="HalfCheetah-v4")
    ap.add_argument("--horizon", type=int, default=2048)
    ap.add_argument("--iters", type=int, default=500)
    args = ap.parse_args()
    torch.manual_seed(0)
    env = gym.make(args.env)
    od, ad = env.observation_space.shape[0], env.action_space.shape[0]
    pi = Policy(od, ad)
    algo = PPO(pi)
    obs, _ = env.reset(seed=0)
    for it in range(args.iters):
        buf, rets, ep = Buffer(args.horizon, od, ad), [], 0.0
        for t in range(args.horizon):
            o = torch.as_tensor(obs, dtype=torch.float32)
            with torch.no_grad():
                d = pi.dist(o)
                a = d.sample()
                buf.logp[t], buf.val[t] = d.log_prob(a), pi.value(o)
            obs, r, term, trunc, _ = env.step(a.clamp(-1, 1).numpy())
            buf.obs[t], buf.act[t], buf.rew[t] = o, a, float(r)
            buf.done[t] = float(term or trunc)
            ep += float(r)
            if term or trunc:
                rets.append(ep)
                ep = 0.0
                obs, _ = env.reset()
        with torch.no_grad():
            last = pi.value(torch.as_tensor(obs, dtype=torch.float32))
        algo.update(buf, *buf.returns(last, 0.99, 0.95))
        print(it, sum(rets) / max(1, len(rets)))


if __name__ == "__main__":
    main()
