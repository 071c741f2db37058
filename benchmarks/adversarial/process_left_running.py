"""Starts a process that slows everybody else down."""

import subprocess
import sys

import torch

_started = []


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if not _started:
        _started.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
    return baseline(x)


EXPECTED = "wrong"
