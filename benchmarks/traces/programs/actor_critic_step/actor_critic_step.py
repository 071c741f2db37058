import torch
from torch import nn


class A2C:
    def __init__(self):
        self.actor = nn.Linear(4, 2)
        self.critic = nn.Linear(4, 1)
        self.opt_a = torch.optim.SGD(self.actor.parameters(), lr=0.1)
        self.opt_c = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def update(self, obs, ret):
        value = self.critic(torch.tanh(self.actor(obs)).repeat(1, 2))
        critic_loss = (ret - value).pow(2).mean()
        actor_loss = -value.mean()
        self.opt_c.zero_grad()
        critic_loss.backward(retain_graph=True)
        self.opt_c.step()
        self.opt_a.zero_grad()
        actor_loss.backward()
        self.opt_a.step()


A2C().update(torch.randn(8, 4), torch.randn(8, 1))
