import torch
from torch import nn

net = nn.Linear(3, 1)
losses = [net(torch.randn(2, 3)).mean() for _ in range(3)]
total = torch.tensor(losses).mean()
total.backward()
