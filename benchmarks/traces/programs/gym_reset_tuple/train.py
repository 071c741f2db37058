"""Deep Q-learning on CartPole, ported from an older script."""
import random
from collections import deque

import gymnasium as gym
import torch
from torch import nn


class QNetwork(nn.Module):
    """Maps observations to one value for each action."""

    def __init__(self, observations, actions):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(observations, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions)
        )

    def forward(self, observation):
        return self.layers(observation)


class ReplayMemory:
    """Ring buffer of transitions."""

    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def push(self, *transition):
        self.items.append(transition)

    def sample(self, count):
        batch = random.sample(self.items, count)
        states, actions, rewards, following, dones = zip(*batch)
        return (
            torch.stack(states),
            torch.tensor(actions),
            torch.tensor(rewards, dtype=torch.float32),
            torch.stack(following),
            torch.tensor(dones, dtype=torch.float32),
        )

    def __len__(self):
        return len(self.items)


def to_tensor(observation):
    return torch.tensor(observation, dtype=torch.float32)


def select_action(network, state, epsilon, actions):
    if random.random() < epsilon:
        return random.randrange(actions)
    with torch.no_grad():
        return int(network(state).argmax())


def optimize(network, target, memory, optimizer, gamma=0.99, count=32):
    if len(memory) < count:
        return
    states, actions, rewards, following, dones = memory.sample(count)
    values = network(states).gather(1, actions[:, None]).squeeze(1)
    with torch.no_grad():
        best = target(following).max(dim=1).values
    loss = nn.functional.smooth_l1_loss(values, rewards + gamma * best * (1 - dones))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    random.seed(0)
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    size, actions = env.observation_space.shape[0], int(env.action_space.n)
    network, target = QNetwork(size, actions), QNetwork(size, actions)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    memory = ReplayMemory(10_000)
    for episode in range(3):
        observation = env.reset()
        state = to_tensor(observation)
        done = False
        while not done:
            action = select_action(network, state, 0.1, actions)
            observation, reward, terminated, truncated, _ = env.step(action)
            following = to_tensor(observation)
            done = terminated or truncated
            memory.push(state, action, reward, following, float(terminated))
            state = following
            optimize(network, target, memory, optimizer)
        print(episode, len(memory))


if __name__ == "__main__":
    main()
