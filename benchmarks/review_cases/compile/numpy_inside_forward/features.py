import numpy as np
import torch
import torch.nn as nn


class FourierFeatures(nn.Module):
    def __init__(self, dim, scale=10.0):
        super().__init__()
        self.register_buffer("B", torch.randn(dim, 2) * scale)
        self.calls = 0

    def forward(self, coords):
        proj = 2 * torch.pi * coords @ self.B.t()
        spread = np.percentile(proj.detach().cpu().numpy(), 99)  # expect: ESP501  # allow: ESP305
        proj = proj / max(float(spread), 1e-3)
        return torch.cat([proj.sin(), proj.cos()], dim=-1)
