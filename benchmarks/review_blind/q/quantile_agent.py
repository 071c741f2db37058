"""Quantile regression DQN."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class QuantileNet(nn.Module):
    def __init__(self, in_channels, n_actions, n_quantiles=200):
        super().__init__()
        self.n_actions, self.n_quantiles = n_actions, n_quantiles
        self.conv = nn.Sequential(nn.Conv2d(in_channels, 32, 8, 4), nn.ReLU(),
                                  nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                                  nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(64 * 7 * 7, 512), nn.ReLU(),
                                nn.Linear(512, n_actions * n_quantiles))

    def forward(self, frames):
        x = self.conv(frames.float() / 255.0)
        return self.fc(x).view(-1, self.n_actions, self.n_quantiles)


def quantile_huber(predicted, target, tau, kappa=1.0):
    """predicted (B, N), target (B, M), tau (N,)."""
    predicted = predicted.unsqueeze(2)
    target = target.unsqueeze(1)
    error = target - predicted
    huber = F.huber_loss(predicted.expand_as(error), target.expand_as(error),
                         reduction="none", delta=kappa)
    weight = (tau.view(1, -1, 1) - (error.detach() < 0).float()).abs()
    return (weight * huber / kappa).mean(2).sum(1)


class QuantileAgent:
    def __init__(self, in_channels, n_actions, n_quantiles=200, lr=5e-5, gamma=0.99,
                 sync_every=10_000, device="cuda"):
        self.net = QuantileNet(in_channels, n_actions, n_quantiles).to(device)
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr, eps=0.01 / 32)
        self.tau = (torch.arange(n_quantiles, device=device) + 0.5) / n_quantiles
        self.gamma, self.sync_every, self.device = gamma, sync_every, device
        self.updates = 0

    @torch.no_grad()
    def act(self, frames, epsilon):
        greedy = self.net(frames).mean(2).argmax(1)
        random = torch.randint_like(greedy, self.net.n_actions)
        explore = torch.rand(greedy.shape, device=greedy.device) < epsilon
        return torch.where(explore, random, greedy)

    def select(self, quantiles, action):
        index = action.view(-1, 1, 1).expand(-1, 1, quantiles.size(2))
        return quantiles.gather(1, index).squeeze(1)

    def learn(self, batch):
        obs, action, reward, next_obs, terminated, weight = batch
        with torch.no_grad():
            best = self.net(next_obs).mean(2).argmax(1)
            following = self.select(self.target(next_obs), best)
            scale = self.gamma * (1.0 - terminated)
            target = reward.unsqueeze(1) + scale.unsqueeze(1) * following
        current = self.select(self.net(obs), action)
        per_sample = quantile_huber(current, target, self.tau)
        loss = (weight * per_sample).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.sync_every == 0:
            self.target.load_state_dict(self.net.state_dict())
        return loss.detach(), per_sample.detach()
