"""DQN with a replay buffer."""
import random
from collections import deque
import torch
from torch import nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, obs, actions):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs, 128), nn.ReLU())
        self.q = nn.Linear(128, actions)

    def forward(self, x):
        return self.q(self.encoder(x))


class Replay:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *transition):
        self.memory.append(transition)

    def sample(self, n):
        return [torch.stack(items) for items in zip(*random.sample(self.memory, n))]

    def __len__(self):
        return len(self.memory)


def train(env, net, target, episodes, gamma=0.99, batch=64):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    replay = Replay(50_000)
    for episode in range(episodes):
        state = torch.tensor(env.reset(), dtype=torch.float32)
        done = False
        while not done:
            with torch.no_grad():
                action = net(state).argmax()
            nxt, reward, done, _ = env.step(action.item())
            nxt = torch.tensor(nxt, dtype=torch.float32)
            replay.push(state, action, torch.tensor(reward), nxt, torch.tensor(float(done)))
            state = nxt
            if len(replay) < batch:
                continue
            s, a, r, s2, d = replay.sample(batch)
            q = net(s).gather(1, a.unsqueeze(1))
            goal = r + gamma * (1 - d) * target(s2).max(1).values.detach()
            loss = F.smooth_l1_loss(q, goal)  # expect: ESP105
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
