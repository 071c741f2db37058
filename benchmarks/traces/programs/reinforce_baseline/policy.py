import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, n_obs=4, n_act=2):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(n_obs, 16), nn.Tanh(), nn.Linear(16, n_act))
        self.v = nn.Linear(n_obs, 1)

    def act(self, obs):
        dist = Categorical(logits=self.pi(obs))
        action = dist.sample()
        return action, dist.log_prob(action), self.v(obs).squeeze(-1)


class Agent:
    def __init__(self, momentum=0.9):
        self.policy = Policy()
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.momentum = momentum
        self.baseline = torch.zeros(())

    def learn(self, log_probs, values, returns):
        values = torch.stack(values)
        error = (returns - values).pow(2).mean()
        self.baseline = self.momentum * self.baseline + (1 - self.momentum) * values.mean()
        advantage = returns - self.baseline
        loss = -(torch.stack(log_probs) * advantage).mean() + 0.5 * error
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()
