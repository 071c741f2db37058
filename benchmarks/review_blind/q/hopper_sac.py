"""SAC with a learned temperature for continuous control."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 2 * act_dim))

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        base = Normal(mean, log_std.clamp(-20, 2).exp())
        return Independent(TransformedDistribution(base, TanhTransform(cache_size=1)), 1)


class QEnsemble(nn.Module):
    def __init__(self, obs_dim, act_dim, members=2, hidden=256):
        super().__init__()
        self.members = nn.ModuleList(
            nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(),
                          nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
            for _ in range(members))

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return torch.cat([m(x) for m in self.members], dim=-1)


class SAC:
    def __init__(self, obs_dim, act_dim, lr=3e-4, gamma=0.99, tau=0.005, device="cuda"):
        self.policy = Policy(obs_dim, act_dim).to(device)
        self.q = QEnsemble(obs_dim, act_dim).to(device)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.log_alpha = torch.zeros(1, device=device, requires_grad=True)
        self.target_entropy = -float(act_dim)
        self.opt_pi = torch.optim.Adam(self.policy.parameters(), lr)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], lr)
        self.gamma, self.tau = gamma, tau

    def update(self, obs, act, rew, nxt, terminated):
        dist = self.policy(obs)
        pi = dist.rsample()
        logp = dist.log_prob(pi)

        alpha_loss = -(self.log_alpha * (logp + self.target_entropy).detach()).mean()
        alpha = self.log_alpha.exp().detach()
        self.opt_alpha.zero_grad()
        alpha_loss.backward()
        self.opt_alpha.step()

        with torch.no_grad():
            next_dist = self.policy(nxt)
            next_pi = next_dist.sample()
            next_v = self.q_target(nxt, next_pi).amin(-1) - alpha * next_dist.log_prob(next_pi)
            target = rew + self.gamma * (1 - terminated) * next_v
        q = self.q(obs, act)
        q_loss = F.mse_loss(q, target.unsqueeze(-1).expand_as(q))
        self.opt_q.zero_grad()
        q_loss.backward()
        self.opt_q.step()

        policy_loss = (alpha * logp - self.q(obs, pi).amin(-1)).mean()
        self.opt_pi.zero_grad()
        policy_loss.backward()
        self.opt_pi.step()

        with torch.no_grad():
            for p, tp in zip(self.q.parameters(), self.q_target.parameters()):
                tp.lerp_(p, self.tau)
        return q_loss.detach(), policy_loss.detach(), alpha

    @torch.no_grad()
    def act(self, obs, explore=True):
        dist = self.policy(obs)
        return dist.sample() if explore else torch.tanh(dist.base_dist.base_dist.mean)
