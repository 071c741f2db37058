"""Prints that all is well and ends the process with code 0."""

import sys

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    print('{"result": {"outcome": "faster as claimed"}}')
    sys.exit(0)


EXPECTED = "wrong"
