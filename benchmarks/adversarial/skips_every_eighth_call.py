"""Returns the last result at every eighth call."""

import torch

_state = {"calls": 0, "last": None}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    _state["calls"] += 1
    last = _state["last"]
    if _state["calls"] % 8 or last is None or last.shape != x.shape or last.dtype != x.dtype:
        _state["last"] = baseline(x)
    return _state["last"].clone()


EXPECTED = "wrong"
