"""Slows torch down in the process that times the baseline, which imports the same file."""

import sys

import torch

_tanh = torch.tanh


def _slow(x):
    return _tanh(_tanh(_tanh(x)) * 0 + x)


def _is_baseline_timed():
    frame, is_timed = sys._getframe(1), False
    while frame is not None:
        is_timed = is_timed or frame.f_globals.get("__name__", "").endswith(".timing_job")
        target = frame.f_locals.get("target")
        if is_timed and str(getattr(target, "name", "")).endswith(":baseline"):
            return True
        frame = frame.f_back
    return False


def get_inputs():
    if torch.tanh is _tanh and _is_baseline_timed():
        torch.tanh = _slow
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x)


def candidate(x):
    return torch.tanh(x)


EXPECTED = "wrong"
NEEDS_TIMING = True
