import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc_1 = nn.Linear(3, 3)
        self.fc_2 = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc_2(torch.relu(self.fc1(x)))


Net()(torch.randn(2, 3))
