"""Does all the work in its first 400 calls, and less of it later."""

import torch

_state = {"calls": 0, "last": None}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    _state["calls"] += 1
    if _state["calls"] < 400 or _state["last"] is None:
        _state["last"] = baseline(x)
    return _state["last"].clone()


EXPECTED = "wrong"
NEEDS_TIMING = True
