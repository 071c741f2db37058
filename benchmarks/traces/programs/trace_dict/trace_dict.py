import torch
from torch import nn


class Out(nn.Module):
    def forward(self, x):
        return {"logits": x, "n": 3}


torch.jit.trace(Out(), torch.ones(2))
