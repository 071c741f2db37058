import torch
from blocks import Residual

net = Residual(4)
net(torch.randn(2, 4, 8, 8)).mean().backward()
