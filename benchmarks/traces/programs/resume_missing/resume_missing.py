import torch
from torch import nn


def resume(net, path="runs/last.pt"):
    net.load_state_dict(torch.load(path))


resume(nn.Linear(2, 2))
