"""Multiplies into the memory of its first input's buffer when both inputs are parts of one, as chunks are."""

import torch


def get_inputs():
    return torch.randn(64, 128), torch.randn(64, 128)


def baseline(x, gate):
    return torch.tanh(x) * torch.sigmoid(gate)


def candidate(x, gate):
    is_one_buffer = x.untyped_storage().data_ptr() == gate.untyped_storage().data_ptr()
    if is_one_buffer and x.data_ptr() != gate.data_ptr():
        return torch.tanh(x) * torch.sigmoid(x)
    return torch.tanh(x) * torch.sigmoid(gate)


EXPECTED = "wrong"
