import random
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")


class QNet(nn.Module):
    def __init__(self, obs, acts):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, acts))

    def forward(self, s):
        return self.net(s)


class Agent:
    def __init__(self, env, gamma=0.99, lr=5e-4, tau=0.005):
        self.env, self.gamma, self.tau = env, gamma, tau
        obs, acts = env.observation_space.shape[0], env.action_space.n
        self.policy, self.target = QNet(obs, acts), QNet(obs, acts)
        self.target.load_state_dict(self.policy.state_dict())
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=lr, amsgrad=True)
        self.memory = deque(maxlen=50_000)

    def act(self, state, eps):
        if random.random() < eps:
            return self.env.action_space.sample()
        with torch.no_grad():
            return self.policy(torch.from_numpy(state).unsqueeze(0)).argmax(1).item()

    def learn(self, batch_size=128):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        states = torch.from_numpy(np.stack(batch.state)).float()
        actions = torch.tensor(batch.action).unsqueeze(1)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        next_states = torch.from_numpy(np.stack(batch.next_state)).float()
        done = torch.tensor(batch.done, dtype=torch.float32)

        q = self.policy(states).gather(1, actions)
        with torch.no_grad():
            best = self.target(next_states).max(1).values
            expected = rewards + self.gamma * (1 - done) * best
        loss = F.smooth_l1_loss(q, expected)  # expect: ESP105

        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(self.policy.parameters(), 100)
        self.optimizer.step()
        for p, t in zip(self.policy.parameters(), self.target.parameters()):
            t.data.lerp_(p.data, self.tau)


def run(episodes=600):
    agent = Agent(gym.make("CartPole-v1"))
    for episode in range(episodes):
        state, _ = agent.env.reset()
        done = False
        while not done:
            action = agent.act(state, max(0.05, 1 - episode / 200))
            nxt, reward, term, trunc, _ = agent.env.step(action)
            done = term or trunc
            agent.memory.append(Transition(state, action, reward, nxt, float(term)))
            state = nxt
            if len(agent.memory) > 1000:
                agent.learn()
