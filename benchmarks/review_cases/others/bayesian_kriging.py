"""Kriging of groundwater levels, written for an old PyTorch and never looked at since."""

import math

import torch
from torch import nn


def matern(a, b, length, variance):
    d = torch.cdist(a / length, b / length)
    s = math.sqrt(3) * d
    return variance * (1 + s) * torch.exp(-s)


class Kriging(nn.Module):
    def __init__(self, dims=2):
        super().__init__()
        self.log_length = nn.Parameter(torch.zeros(dims))
        self.log_variance = nn.Parameter(torch.zeros(()))
        self.log_noise = nn.Parameter(torch.tensor(-2.0))

    def covariance(self, x):
        k = matern(x, x, self.log_length.exp(), self.log_variance.exp())
        return k + self.log_noise.exp() * torch.eye(len(x), dtype=x.dtype, device=x.device)

    def forward(self, x, y):
        chol = torch.cholesky(self.covariance(x))  # expect: ESP512
        white = torch.linalg.solve_triangular(chol, y.unsqueeze(-1), upper=False)
        half_logdet = chol.diagonal().log().sum()
        return 0.5 * white.pow(2).sum() + half_logdet

    @torch.no_grad()
    def predict(self, x, y, at):
        cross = matern(at, x, self.log_length.exp(), self.log_variance.exp())
        return cross @ torch.linalg.solve(self.covariance(x), y)


def remove_trend(x, y):
    design = torch.cat([torch.ones_like(x[:, :1]), x], dim=1)
    solution, _ = torch.lstsq(y.unsqueeze(-1), design)  # expect: ESP511
    weights = solution[: design.shape[1]]
    return y - (design @ weights).squeeze(-1), weights


def fit(x, y, steps=300):
    model = Kriging(x.shape[1]).to(x.dtype)
    residual, weights = remove_trend(x, y)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        opt.zero_grad()
        loss = model(x, residual)
        loss.backward()
        opt.step()
    return model, weights
