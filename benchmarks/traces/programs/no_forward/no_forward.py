import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 2)

    def foward(self, x):
        return self.fc(x)


model = nn.Sequential(nn.Linear(5, 5), Head())
model(torch.randn(1, 5))
