import torch
from torch import nn


class Dispatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x, **kwargs):
        return self.a(x)


scripted = torch.jit.script(Dispatch())
