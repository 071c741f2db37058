import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Rollout:
    def __init__(self):
        self.log_probs, self.rewards = [], []

    def add(self, log_prob, reward):
        self.log_probs.append(log_prob)  # expect: ESP303 @a
        self.rewards.append(reward)


def play(env, policy, optimizer, steps):
    rollout = Rollout()
    state = env.reset()
    for _ in range(steps):
        dist = torch.distributions.Categorical(logits=policy(state))
        action = dist.sample()
        state, reward = env.step(action)
        log_prob = dist.log_prob(action)
        optimizer.zero_grad()
        (-log_prob * reward).mean().backward()
        optimizer.step()
        rollout.add(log_prob, reward)  # expect: ESP303 @a
    return rollout
