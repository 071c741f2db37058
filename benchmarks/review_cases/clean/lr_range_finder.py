"""Learning-rate range test; the model and optimizer are as before afterwards."""
import copy
import math

import torch
import torch.nn.functional as F


def find_lr(model, loader, optimizer, device, lo=1e-7, hi=1.0, beta=0.98, steps=200):
    model_state = copy.deepcopy(model.state_dict())
    optim_state = copy.deepcopy(optimizer.state_dict())
    mode = model.training
    factor = (hi / lo) ** (1 / (steps - 1))
    lr, avg, best, lrs, curve = lo, 0.0, math.inf, [], []
    model.train()
    for step, (x, y) in zip(range(1, steps + 1), loader):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        value = loss.item()  # allow: ESP305
        avg = beta * avg + (1 - beta) * value
        smooth = avg / (1 - beta**step)
        if smooth > 4 * best:
            break
        best = min(best, smooth)
        lrs.append(lr)
        curve.append(smooth)
        loss.backward()
        optimizer.step()
        lr *= factor
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optim_state)
    optimizer.zero_grad()
    model.train(mode)
    return lrs, curve


def suggestion(lrs, curve):
    slopes = [b - a for a, b in zip(curve[:-1], curve[1:])]
    return lrs[min(range(len(slopes)), key=slopes.__getitem__)]
