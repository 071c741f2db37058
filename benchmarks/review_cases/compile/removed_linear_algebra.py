"""Whitening and least squares, written for torch 1.7."""
import torch
from torch import nn
from torch._six import string_classes  # expect: ESP511


class ZCA(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("w", torch.eye(features))

    @torch.no_grad()
    def fit(self, x):
        self.mean.copy_(x.mean(0))
        centred = x - self.mean
        cov = centred.t() @ centred / (len(x) - 1)
        values, vectors = torch.symeig(cov, eigenvectors=True)  # expect: ESP511
        self.w.copy_(vectors @ torch.diag((values + self.eps).rsqrt()) @ vectors.t())
        return self

    def forward(self, x):
        return (x - self.mean) @ self.w


def ridge(x, y, lam=1e-3):
    gram = x.t() @ x + lam * torch.eye(x.size(1))
    solution, _ = torch.solve(x.t() @ y, gram)  # expect: ESP511
    return solution


def describe(obj):
    return obj if isinstance(obj, string_classes) else tuple(obj.shape)
