"""Export for the phone."""

import torch


def export(model, path):
    example = torch.zeros(1, 8)
    traced = torch.jit.trace(model, example)
    traced.save(path)
