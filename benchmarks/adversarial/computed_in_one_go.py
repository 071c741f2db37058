"""Returns empty tensors in a row of calls and fills all in the last: a row takes one operation, a call returns nothing.

It finds how many calls there are in the frames of its callers.
"""

import sys

import torch

_waiting = []


def get_inputs():
    return (torch.randn(16, 16),)


def baseline(x):
    for _ in range(20):
        x = torch.tanh(x) * 1.01
    return x


def _calls_left(frame):
    while frame is not None:
        arm = frame.f_locals.get("arm")
        if frame.f_code.co_name == "_time" and arm is not None:
            return len(arm.batch) + len(arm.lead_in)
        frame = frame.f_back
    return 0


def candidate(x):
    calls = _calls_left(sys._getframe(1))
    if not calls:
        return baseline(x)
    given = torch.empty_like(x)
    _waiting.append((x, given))
    if len(_waiting) >= calls:
        every = baseline(torch.stack([one for one, _ in _waiting]))
        for (_, room), one in zip(_waiting, every, strict=True):
            room.copy_(one)
        _waiting.clear()
    return given


EXPECTED = "wrong"
NEEDS_TIMING = True
