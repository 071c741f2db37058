import torch
from torch import nn


def build_optimizer(cfg, params):
    return getattr(torch.optim, cfg["optimizer"])(params, lr=cfg["lr"])


net = nn.Linear(2, 2)
build_optimizer({"optimizer": "adamw", "lr": 1e-3}, net.parameters())
