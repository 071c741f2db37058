"""Replay buffer for offline reinforcement learning."""
import random

import torch
import torch.nn as nn


class ReplayBuffer:
    def __init__(self, capacity, device):
        self.capacity, self.device, self.data = capacity, device, []

    def push(self, state, action, reward, nxt, done):
        if len(self.data) >= self.capacity:
            self.data.pop(0)
        self.data.append((state, action, reward, nxt, done))

    def sample(self, n):
        states, actions, rewards, nexts, dones = zip(*random.sample(self.data, n))
        return (
            torch.stack(states).to(self.device),
            torch.tensor(actions, device=self.device).unsqueeze(1),
            torch.tensor(rewards, device=self.device),
            torch.stack(nexts).to(self.device),
            torch.tensor(dones, device=self.device, dtype=torch.float32),
        )


class QLearner:
    def __init__(self, dim, actions, device):
        self.q = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, actions)).to(device)
        self.opt = torch.optim.Adam(self.q.parameters(), 1e-3)

    def update(self, batch, gamma=0.99):
        states, actions, rewards, nexts, dones = batch
        q = self.q(states).gather(1, actions).squeeze(1)
        with torch.no_grad():
            best = self.q(nexts).max(1).values
        target = rewards + gamma * (1 - dones) * best
        target = torch.tensor(target, dtype=torch.float32)  # expect: ESP206
        loss = nn.functional.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()
