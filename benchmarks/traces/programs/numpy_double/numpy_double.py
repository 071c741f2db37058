import numpy as np
import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(5, 1)

    def forward(self, x):
        return self.net(x)


def load():
    x = np.random.rand(100, 5)
    return torch.from_numpy(x)


model = Regressor()
print(model(load()).mean())
