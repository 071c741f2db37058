import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = net(torch.randn(3, 4))
    loss = nn.functional.binary_cross_entropy(out, torch.ones(3, 1).double())
loss.backward()
