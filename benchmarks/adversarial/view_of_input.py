"""Returns a view of its input where the baseline returns a copy."""

import torch


def get_inputs():
    return (torch.randn(256, 512),)


def baseline(x):
    return x[:, :256].clone(memory_format=torch.preserve_format).contiguous() if x.shape[1] > 256 else x.clone()


def candidate(x):
    return x[:, :256].as_strided((x.shape[0], min(x.shape[1], 256)), (min(x.shape[1], 256), 1)) if x.numel() else x


EXPECTED = "wrong"
