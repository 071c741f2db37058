"""Frame stacking for Atari: the buffer is rolled in place."""
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class Actor(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten())
        self.fc = nn.Linear(64 * 9 * 9, n)

    def forward(self, x):
        return self.fc(self.conv(x.float() / 255))


def collect(env_id, steps):
    env = gym.make(env_id, render_mode="rgb_array")
    actor = Actor(env.action_space.n).eval()
    stack = np.zeros((4, 84, 84), dtype=np.uint8)
    observations, actions = [], []
    frame, _ = env.reset()
    for _ in range(steps):
        stack[:-1] = stack[1:]
        stack[-1] = frame[:84, :84, 0]
        obs = torch.from_numpy(stack)
        observations.append(obs)  # expect: ESP207
        with torch.no_grad():
            action = actor(obs.unsqueeze(0)).argmax(1).item()
        actions.append(action)
        frame, _, term, trunc, _ = env.step(action)
        if term or trunc:
            frame, _ = env.reset()
            stack.fill(0)
    return torch.stack(observations), torch.tensor(actions)
