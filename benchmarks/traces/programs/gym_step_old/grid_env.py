"""A grid world with the interface of gymnasium."""
import gymnasium as gym
import numpy as np


class GridEnv(gym.Env):
    """The agent walks on a line to the goal at the right end."""

    metadata = {"render_modes": []}

    def __init__(self, size=8):
        self.size = size
        self.observation_space = gym.spaces.Box(0.0, 1.0, shape=(2,), dtype=np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.position = 0

    def _observe(self):
        return np.array([self.position / self.size, 1.0], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0
        return self._observe(), {}

    def step(self, action):
        self.position = max(0, self.position + (1 if action == 1 else -1))
        done = self.position >= self.size
        reward = 1.0 if done else -0.01
        return self._observe(), reward, done, {"position": self.position}
