import torch
from torch import nn


CONFIG = {"lr": "1e-3", "wd": 0.01}


def configure(model):
    return torch.optim.AdamW(model.parameters(), lr=CONFIG["lr"], weight_decay=CONFIG["wd"])


model = nn.Linear(2, 2)
opt = configure(model)
model(torch.randn(1, 2)).sum().backward()
opt.step()
