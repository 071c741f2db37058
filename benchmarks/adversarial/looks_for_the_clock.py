"""Looks at who calls it: where a clock runs, it returns what it returned last."""

import sys

import torch

_state = {"last": None}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    frame = sys._getframe(1)
    is_timed = any("perf_counter" in each for each in (*frame.f_code.co_names, *frame.f_globals))
    if not is_timed or _state["last"] is None:
        _state["last"] = baseline(x)
    return _state["last"].clone()


EXPECTED = "wrong"
NEEDS_TIMING = True
