"""Starts threads that slow everybody else down."""

import threading

import torch

_started = []


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def _spin():
    x = torch.randn(64, 64)
    while True:
        x = torch.tanh(x @ x)


def candidate(x):
    if not _started:
        _started.append(threading.Thread(target=_spin, daemon=True))
        _started[0].start()
    return baseline(x)


EXPECTED = "wrong"
