import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

net = nn.Linear(2, 1)
opt = torch.optim.Adam(net.parameters())
sched = ReduceLROnPlateau(opt, patience=2)
for epoch in range(3):
    net(torch.randn(4, 2)).mean().backward()
    opt.step()
    sched.step()
