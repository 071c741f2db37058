"""Preallocated replay storage living on the accelerator."""
import torch


class Replay:
    def __init__(self, capacity, obs_dim, act_dim, device):
        self.capacity, self.device = capacity, device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, act_dim, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.terminated = torch.zeros(capacity, device=device)
        self.cursor = 0
        self.full = False

    def __len__(self):
        return self.capacity if self.full else self.cursor

    @torch.no_grad()
    def extend(self, obs, act, rew, next_obs, terminated):
        n = obs.size(0)
        idx = (self.cursor + torch.arange(n, device=self.device)) % self.capacity
        self.obs[idx] = obs
        self.act[idx] = act
        self.rew[idx] = rew
        self.next_obs[idx] = next_obs
        self.terminated[idx] = terminated.float()
        self.full = self.full or self.cursor + n >= self.capacity
        self.cursor = (self.cursor + n) % self.capacity

    def sample(self, batch_size):
        idx = torch.randint(len(self), (batch_size,), device=self.device)
        return (self.obs[idx], self.act[idx], self.rew[idx],
                self.next_obs[idx], self.terminated[idx])
