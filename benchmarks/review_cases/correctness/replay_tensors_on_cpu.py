import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")


class Actor(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s, 400), nn.ReLU(), nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, a), nn.Tanh())

    def forward(self, s):
        return self.net(s)


class Critic(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2 = nn.Linear(s, 400), nn.Linear(400 + a, 300)
        self.l3 = nn.Linear(300, 1)

    def forward(self, s, a):
        h = F.relu(self.l1(s))
        h = F.relu(self.l2(torch.cat([h, a], 1)))
        return self.l3(h)


class DDPG:
    def __init__(self, s, a, gamma=0.99):
        self.actor, self.critic = Actor(s, a).to(device), Critic(s, a).to(device)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), 1e-4)
        self.c_opt = torch.optim.Adam(self.critic.parameters(), 1e-3)
        self.buffer, self.gamma = deque(maxlen=100_000), gamma

    def act(self, state):
        with torch.no_grad():
            action = self.actor(torch.from_numpy(state).float())  # expect: ESP104
        return action.cpu().numpy()

    def update(self, n=128):
        s, a, r, s2, d = map(np.stack, zip(*random.sample(self.buffer, n)))
        s, a, s2 = (torch.from_numpy(v).float().to(device) for v in (s, a, s2))
        r = torch.from_numpy(r).float().unsqueeze(1).to(device)
        d = torch.from_numpy(d).float().unsqueeze(1).to(device)
        with torch.no_grad():
            target = r + self.gamma * (1 - d) * self.critic(s2, self.actor(s2))
        c_loss = F.mse_loss(self.critic(s, a), target)
        self.c_opt.zero_grad()
        c_loss.backward()
        self.c_opt.step()
        a_loss = -self.critic(s, self.actor(s)).mean()
        self.a_opt.zero_grad()
        a_loss.backward()
        self.a_opt.step()
