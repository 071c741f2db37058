"""Is right in the main thread only, as a server's handlers are not."""

import threading

import torch


def get_inputs():
    return (torch.randn(64, 128),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if threading.current_thread() is not threading.main_thread():
        return torch.tanh(x)
    return torch.tanh(x) * torch.sigmoid(x)


EXPECTED = "wrong"
