import torch
from torch import nn
from torch.distributions import Categorical


def normalised(x):
    return (x - x.mean()) / x.std()


class ActorCritic(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.body = nn.Linear(n, 16)
        self.actor = nn.Linear(16, 3)

    def forward(self, s):
        return Categorical(logits=self.actor(torch.tanh(self.body(s))))


class Worker:
    def __init__(self, env):
        self.env, self.net = env, ActorCritic()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=3e-3)

    def rollout(self, steps):
        logs, rewards, state = [], [], self.env.reset()
        for _ in range(steps):
            dist = self.net(state)
            action = dist.sample()
            state, reward = self.env.step(action)
            logs.append(dist.log_prob(action))
            rewards.append(reward)
        return torch.stack(logs), torch.tensor(rewards)

    def update(self):
        logs, rewards = self.rollout(8)
        loss = -(logs * normalised(rewards)).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
