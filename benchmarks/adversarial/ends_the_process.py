"""Ends the process at once."""

import os

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    os._exit(0)


EXPECTED = "exited"
