import torch
from torch import nn
from torch.distributions import Normal


class Actor(nn.Module):
    def __init__(self, obs=3, act=2):
        super().__init__()
        self.mu = nn.Linear(obs, act)
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs):
        return Normal(self.mu(obs), self.log_std.exp())


actor = Actor()
opt = torch.optim.SGD(actor.parameters(), lr=1e6)
for i in range(40):
    obs = torch.randn(16, 3) * 100
    dist = actor(obs)
    loss = -dist.log_prob(torch.randn(16, 2)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
