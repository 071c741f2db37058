import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from critic import TwinCritic


class TD3:
    def __init__(self, obs, act, device, gamma=0.99, tau=0.005):
        self.actor = nn.Sequential(nn.Linear(obs, 256), nn.ReLU(), nn.Linear(256, act), nn.Tanh()).to(device)
        self.critic = TwinCritic(obs, act).to(device)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), 3e-4)
        self.c_opt = torch.optim.Adam(self.critic.parameters(), 3e-4)
        self.gamma, self.tau, self.device, self.it = gamma, tau, device, 0

    def act(self, obs):
        with torch.no_grad():
            return self.actor(torch.as_tensor(obs, dtype=torch.float32, device=self.device)).cpu().numpy()

    def update(self, batch):
        obs, act, rew, nxt, done = (torch.as_tensor(v, dtype=torch.float32, device=self.device) for v in batch)
        with torch.no_grad():
            noise = (torch.randn_like(act) * 0.2).clamp(-0.5, 0.5)
            a2 = (self.actor_t(nxt) + noise).clamp(-1, 1)
            target = rew.view(-1) + self.gamma * (1 - done.view(-1)) * torch.min(*self.critic_t(nxt, a2))
        q1, q2 = self.critic(obs, act)
        loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.c_opt.zero_grad()
        loss.backward()
        self.c_opt.step()
        self.it += 1
        if self.it % 2 == 0:
            a_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.a_opt.zero_grad()
            a_loss.backward()
            self.a_opt.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
                    for p, t in zip(net.parameters(), tgt.parameters()):
                        t.lerp_(p, self.tau)
