"""Preallocated replay buffer."""
import torch


class ReplayBuffer:
    """Stores transitions in tensors; old ones are overwritten."""

    def __init__(self, capacity, observations):
        self.capacity = capacity
        self.states = torch.zeros(capacity, observations)
        self.following = torch.zeros(capacity, observations)
        self.actions = torch.zeros(capacity, 1)
        self.rewards = torch.zeros(capacity, 1)
        self.ends = torch.zeros(capacity, 1)
        self.size = 0
        self.next = 0

    def add(self, state, action, reward, following, end):
        row = self.next
        self.states[row], self.following[row] = state, following
        self.actions[row], self.rewards[row], self.ends[row] = action, reward, float(end)
        self.next = (row + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, count):
        rows = torch.randint(0, self.size, (count,))
        return self.states[rows], self.actions[rows], self.rewards[rows], self.following[rows], self.ends[rows]
