import torch
from torch import nn
from torch.distributions import Normal

from rollout import Rollout


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def dist(self, s):
        return Normal(self.mu(s), self.log_std.exp())


class PPO:
    def __init__(self, clip=0.2, epochs=4):
        self.actor, self.clip, self.epochs = Actor(), clip, epochs
        self.opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)

    def collect(self, n):
        buffer = Rollout()
        for _ in range(n):
            state = torch.randn(3)
            dist = self.actor.dist(state)
            action = dist.sample()
            buffer.add(state, action, dist.log_prob(action).sum(), -float(action.abs()))
        return buffer

    def update(self, buffer):
        states, actions, old, advantage = buffer.tensors()
        for _ in range(self.epochs):
            new = self.actor.dist(states).log_prob(actions).sum(-1)
            ratio = (new - old).exp()
            clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
            loss = -torch.min(ratio * advantage, clipped * advantage).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


if __name__ == "__main__":
    algo = PPO()
    for _ in range(2):
        algo.update(algo.collect(16))
