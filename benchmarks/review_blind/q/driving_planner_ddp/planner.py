"""Trajectory planner conditioned on neighbouring agents."""
import torch
import torch.nn as nn


class AgentEncoder(nn.Module):
    def __init__(self, in_dim=8, dim=192, heads=6, depth=3):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(in_dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.mixer = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, history, valid):
        """history (B, A, T, F), valid (B, A) with the ego agent at index 0."""
        tokens = self.project(history).amax(dim=2)
        return self.mixer(tokens, src_key_padding_mask=~valid)


class Planner(nn.Module):
    def __init__(self, dim=192, modes=6, horizon=80):
        super().__init__()
        self.modes, self.horizon = modes, horizon
        self.encoder = AgentEncoder(dim=dim)
        self.trajectory = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(),
                                        nn.Linear(512, modes * horizon * 2))
        self.score = nn.Linear(dim, modes)

    def forward(self, history, valid):
        ego = self.encoder(history, valid)[:, 0]
        traj = self.trajectory(ego).view(-1, self.modes, self.horizon, 2)
        return traj.cumsum(dim=2), self.score(ego)


def winner_loss(traj, score, target):
    error = (traj - target[:, None]).norm(dim=-1).mean(-1)
    best = error.detach().argmin(dim=1)
    regression = error.gather(1, best[:, None]).mean()
    return regression + nn.functional.cross_entropy(score, best)
