"""Reads where there is nothing."""

import ctypes

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    return ctypes.string_at(8)


EXPECTED = "crashed"
