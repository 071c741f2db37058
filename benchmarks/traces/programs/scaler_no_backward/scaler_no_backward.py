import torch
from torch import nn

net, aux = nn.Linear(4, 4), nn.Linear(4, 1)
opt_net = torch.optim.Adam(net.parameters())
opt_aux = torch.optim.Adam(aux.parameters())
scaler = torch.amp.GradScaler("cpu")

for i in range(4):
    x = torch.randn(8, 4)
    loss = net(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(opt_net)
    scaler.step(opt_aux)
    scaler.update()
