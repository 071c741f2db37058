import random

import torch
from torch import nn

from replay import Replay


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, s):
        return self.net(s)


class DQN:
    def __init__(self):
        self.q, self.memory = Q(), Replay(500)
        self.opt = torch.optim.Adam(self.q.parameters())

    def act(self, state, eps=0.2):
        if random.random() < eps:
            return random.randrange(2)
        return self.q(state).argmax().item()

    def learn(self, n=16, gamma=0.9):
        s, a, r, s2, done = self.memory.draw(n)
        with torch.no_grad():
            goal = r + gamma * self.q(s2).max(1).values * ~done
        loss = nn.functional.smooth_l1_loss(self.q(s).gather(1, a.unsqueeze(1)).squeeze(1), goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


def main():
    agent, state = DQN(), torch.randn(3)
    for t in range(60):
        action = agent.act(state)
        following = torch.randn(3)
        agent.memory.push(state, action, float(action), following, t % 10 == 9)
        state = following
        if len(agent.memory) > 20:
            agent.learn()


if __name__ == "__main__":
    main()
