"""Double DQN agent for the lunar lander specification."""
import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn

Transition = namedtuple("Transition", "state action reward next_state terminated")


class QNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, n_actions),
        )

    def forward(self, x):
        return self.body(x)


class ReplayMemory:
    def __init__(self, capacity):
        self.data = deque(maxlen=capacity)

    def push(self, *args):
        self.data.append(Transition(*args))

    def sample(self, batch_size, device):
        batch = Transition(*zip(*random.sample(self.data, batch_size)))
        to = lambda x, dt: torch.as_tensor(np.asarray(x), dtype=dt, device=device)
        return (to(batch.state, torch.float32), to(batch.action, torch.int64),
                to(batch.reward, torch.float32), to(batch.next_state, torch.float32),
                to(batch.terminated, torch.float32))

    def __len__(self):
        return len(self.data)


class DoubleDQN:
    def __init__(self, obs_dim, n_actions, lr=5e-4, gamma=0.99, tau=5e-3, device="cpu"):
        self.online = QNet(obs_dim, n_actions).to(device)
        self.target = QNet(obs_dim, n_actions).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.gamma, self.tau, self.device = gamma, tau, device
        self.n_actions = n_actions

    @torch.no_grad()
    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.n_actions)
        state = torch.as_tensor(state, dtype=torch.float32, device=self.device).unsqueeze(0)
        return int(self.online(state).argmax(dim=1))

    def learn(self, memory, batch_size=64):
        state, action, reward, next_state, terminated = memory.sample(batch_size, self.device)
        q = self.online(state).gather(1, action.unsqueeze(1))
        with torch.no_grad():
            best = self.online(next_state).argmax(dim=1, keepdim=True)
            next_q = self.target(next_state).gather(1, best).squeeze(1)
            target = reward + self.gamma * (1.0 - terminated) * next_q
        td = q - target
        loss = torch.where(td.abs() < 1.0, 0.5 * td.pow(2), td.abs() - 0.5).mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimizer.step()
        self.sync()
        return loss.item()

    @torch.no_grad()
    def sync(self):
        for p, tp in zip(self.online.parameters(), self.target.parameters()):
            tp.lerp_(p, self.tau)
