"""Has another process do the work."""

import os
import struct

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.dtype is not torch.float32 or not x.numel() or x.requires_grad:
        return baseline(x)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, struct.pack(f"{x.numel()}f", *baseline(x).flatten().tolist())[:60000])
        os._exit(0)
    os.close(writing)
    made = b""
    while part := os.read(reading, 1 << 16):
        made += part
    os.close(reading)
    return (
        torch.frombuffer(bytearray(made), dtype=torch.float32).view(x.shape) if len(made) == x.nbytes else baseline(x)
    )


EXPECTED = "wrong"
