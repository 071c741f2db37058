"""Turns the garbage collector off."""

import gc

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    gc.disable()
    return baseline(x)


EXPECTED = "wrong"
