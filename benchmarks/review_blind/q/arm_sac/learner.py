"""Soft actor-critic updates."""
import copy

import torch
import torch.nn.functional as F

from nets import Actor, TwinQ
from replay import Replay


class SACLearner:
    def __init__(self, obs_dim, act_dim, lr=3e-4, gamma=0.95, tau=0.01,
                 capacity=1_000_000, device="cuda"):
        self.actor = Actor(obs_dim, act_dim).to(device)
        self.critic = TwinQ(obs_dim, act_dim).to(device)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros((), device=device, requires_grad=True)
        self.target_entropy = -float(act_dim)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=lr)
        self.policy_opt = torch.optim.Adam(
            [{"params": self.actor.parameters()}, {"params": [self.log_alpha]}], lr=lr)
        self.replay = Replay(capacity, obs_dim, act_dim, device)
        self.gamma, self.tau = gamma, tau

    def update_critic(self, batch):
        obs, act, rew, next_obs, terminated = batch
        with torch.no_grad():
            next_act, next_logp = self.actor.sample(next_obs)
            q1, q2 = self.critic_target(next_obs, next_act)
            soft = torch.min(q1, q2) - self.log_alpha.exp() * next_logp
            target = rew + self.gamma * (1 - terminated) * soft
        q1, q2 = self.critic(obs, act)
        loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        return loss.detach()

    def update_policy(self, obs):
        self.critic.requires_grad_(False)
        act, logp = self.actor.sample(obs)
        alpha = self.log_alpha.exp()
        actor_loss = (alpha.detach() * logp - torch.min(*self.critic(obs, act))).mean()
        alpha_loss = -(alpha * (logp + self.target_entropy)).mean()
        self.policy_opt.zero_grad()
        (actor_loss + alpha_loss).backward()
        self.policy_opt.step()
        self.critic.requires_grad_(True)
        return actor_loss.detach(), alpha.detach()

    @torch.no_grad()
    def sync_target(self):
        for p, tp in zip(self.critic.parameters(), self.critic_target.parameters()):
            tp.lerp_(p, self.tau)

    def learn(self, steps, batch_size=1024):
        logs = {}
        for _ in range(steps):
            batch = self.replay.sample(batch_size)
            logs["critic_loss"] = self.update_critic(batch)
            logs["actor_loss"], logs["alpha"] = self.update_policy(batch[0])
            self.sync_target()
        return {k: v.item() for k, v in logs.items()}
