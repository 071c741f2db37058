import torch
import torch.nn as nn


class TwinCritic(nn.Module):
    """Two Q functions; each answers with one number for each row, (B,)."""

    def __init__(self, obs, act, hidden=256):
        super().__init__()
        make = lambda: nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.q1, self.q2 = make(), make()

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x)[..., 0]
