"""Sets a variable of the environment."""

import os

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    os.environ["MKL_NUM_THREADS"] = "2"
    return baseline(x)


EXPECTED = "wrong"
