"""ESP207 on buffers that are filled again, in loops, classes and data sets."""

from __future__ import annotations

import pytest

HEAD = """
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

FOUND = {
    "class buffer": """
class Cam:
    def __init__(self):
        self.frame = np.zeros((3, 4), dtype=np.float32)
    def grab(self, raw):
        self.frame[:] = raw
    def tensor(self):
        return torch.from_numpy(self.frame)
""",
    "class ring with slice": """
class Ring:
    def __init__(self, n):
        self.buf = np.zeros(n, dtype=np.float32)
        self.pos = 0
    def push(self, x):
        self.buf[self.pos:self.pos + len(x)] = x
        self.pos += len(x)
    def window(self, n):
        return torch.from_numpy(self.buf[self.pos - n:self.pos])
""",
    "readinto": """
def stream(f, n):
    buf = np.empty(n, dtype=np.uint8)
    chunks = []
    while f.readinto(buf):
        chunks.append(torch.from_numpy(buf))
    return torch.stack(chunks)
""",
    "copyto yield": """
def gen(src):
    buf = np.empty((3, 3), np.float32)
    for s in src:
        np.copyto(buf, s)
        yield torch.from_numpy(buf)
""",
    "aug list": """
def gen(src):
    out = []
    buf = np.empty((3, 3), np.float32)
    for s in src:
        buf[...] = s
        out += [torch.from_numpy(buf)]
    return out
""",
    "dict store": """
def gen(src):
    out = {}
    buf = np.empty((3, 3), np.float32)
    for k, s in src:
        buf[...] = s
        t = torch.from_numpy(buf)
        out[k] = t
    return out
""",
    "helper fills": """
def fill(buf, s):
    buf[:] = s
def gen(src):
    out = []
    buf = np.empty((3, 3), np.float32)
    for s in src:
        fill(buf, s)
        out.append(torch.from_numpy(buf))
    return out
""",
    "getitem view": """
class D:
    def __init__(self, p):
        self.x = np.load(p)
    def __getitem__(self, i):
        x = self.x[i]
        x -= x.mean()
        return torch.from_numpy(x)
""",
    "weights before after": """
def f(model, opt, x, y):
    before = model.fc.weight.detach().numpy()
    F.mse_loss(model(x), y).backward()
    opt.step()
    print(np.abs(before - model.fc.weight.detach().numpy()).max())
""",
    "numpy view changed": """
def norm(t):
    arr = t.detach().numpy()
    arr -= arr.mean()
    arr /= arr.std()
    return arr, t
""",
    "kept on self": """
class Obs:
    def __init__(self, n):
        self.state = np.zeros(n, dtype=np.float32)
        self.history = []
    def step(self, a):
        self.state += a
        self.history.append(torch.from_numpy(self.state))
""",
}
CLEAN = {
    "setitem copy": """
def gen(src):
    batch = torch.empty(10, 3)
    buf = np.empty(3, np.float32)
    for i, s in enumerate(src):
        buf[:] = s
        batch[i] = torch.from_numpy(buf)
    return batch
""",
    "getitem copy": """
class D:
    def __init__(self, p):
        self.x = np.load(p)
    def __getitem__(self, i):
        x = self.x[i].astype(np.float32)
        x -= x.mean()
        return torch.from_numpy(x)
""",
    "gym": """
class A:
    def __init__(self, n):
        self.m = np.zeros(n)
    def act(self, obs):
        x = torch.from_numpy(self.m).float().unsqueeze(0)
        return self.net(x)
    def upd(self, o):
        self.m[:] = o
""",
}


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_memory_that_changes_while_it_is_shared_is_found(found, source):
    assert found("ESP207", HEAD + source)


@pytest.mark.parametrize("source", CLEAN.values(), ids=CLEAN)
def test_memory_that_is_copied_is_left_alone(found, source):
    assert found("ESP207", HEAD + source) == []
