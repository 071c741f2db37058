import numpy as np
import torch
import torch.nn as nn


class Simulator:
    """Steps a batch of pendulums; observations are handed out and then overwritten."""

    def __init__(self, n):
        self.state = np.random.uniform(-np.pi, np.pi, (n, 2)).astype(np.float32)

    def observe(self):
        return torch.as_tensor(self.state)  # allow: ESP207

    def advance(self, torque, dt=0.05):
        self.state[:, 1] += dt * (9.8 * np.sin(self.state[:, 0]) + torque)
        self.state[:, 0] += dt * self.state[:, 1]


def record(steps, n=256):
    state = np.zeros((n, 2), dtype=np.float32)
    policy = nn.Linear(2, 1)
    trajectory = []
    for _ in range(steps):
        obs = torch.as_tensor(state)
        with torch.no_grad():
            torque = policy(obs).squeeze(-1).numpy()
        trajectory.append(obs)  # expect: ESP207
        state[:, 1] += 0.05 * (9.8 * np.sin(state[:, 0]) + torque)
        state[:, 0] += 0.05 * state[:, 1]
    return torch.stack(trajectory)
