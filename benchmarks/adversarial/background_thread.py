"""Returns at once and lets a thread do the work."""

import threading

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    made = torch.empty_like(x)

    def work():
        made.copy_(baseline(x))

    threading.Thread(target=work).start()
    return made


EXPECTED = "wrong"
