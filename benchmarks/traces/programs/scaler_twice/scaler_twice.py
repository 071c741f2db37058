import torch
from torch import nn


def train_step(model, opt, scaler, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if loss.isfinite():
        scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()


net = nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
train_step(net, sgd, torch.amp.GradScaler("cpu"), torch.randn(8, 4), torch.randn(8, 1))
