"""REINFORCE with baseline and generalized advantages, computed without gradients."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Normal


class Policy(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, act))
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs):
        return Normal(self.mean(obs), self.log_std.exp())


def advantages(critic, batch, gamma=0.99, lam=0.95):
    with torch.no_grad():
        values = critic(batch["obs"]).squeeze(-1)
    result = torch.zeros_like(values)
    last = torch.zeros_like(values[0])
    for t in reversed(range(len(values) - 1)):
        delta = batch["rewards"][t] + gamma * values[t + 1] * (1 - batch["done"][t]) - values[t]
        last = delta + gamma * lam * (1 - batch["done"][t]) * last
        result[t] = last
    return result, result + values


def update(policy, critic, pi_opt, v_opt, batch, clip=0.2):
    adv, returns = advantages(critic, batch)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = (policy(batch["obs"]).log_prob(batch["act"]).sum(-1) - batch["logp"]).exp()
    loss_pi = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
    pi_opt.zero_grad()
    loss_pi.backward()
    pi_opt.step()
    value = critic(batch["obs"]).squeeze(-1)
    loss_v = F.mse_loss(value, returns)
    v_opt.zero_grad()
    loss_v.backward()
    v_opt.step()
