"""Lottery tickets: weights are written in place, always where autograd does not look."""

import copy

import torch
import torch.nn as nn


def reset_outputs(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight)
            module.bias.data.zero_()


@torch.no_grad()
def magnitude_masks(model, keep):
    masks = {}
    for name, p in model.named_parameters():
        if p.dim() < 2:
            continue
        cut = p.abs().flatten().kthvalue(max(1, int((1 - keep) * p.numel()))).values
        masks[name] = (p.abs() > cut).to(p.dtype)
        p.mul_(masks[name])
    return masks


def rewind(model, start, masks):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(start[name])
            if name in masks:
                p *= masks[name]


def ternary_direction(rows, cols):
    direction = torch.zeros(rows, cols)
    direction[::2] = 1.0
    direction[1::2].fill_(-1.0)
    return direction.requires_grad_()


def train(model, loader, masks, epochs):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            h = model(x)
            h[:, -1] = 0
            loss = nn.functional.cross_entropy(h, y)
            opt.zero_grad()
            loss.backward()
            for name, p in model.named_parameters():
                if name in masks:
                    p.grad.mul_(masks[name])
            opt.step()


def search(model, loader, rounds=5):
    reset_outputs(model)
    start = copy.deepcopy(model.state_dict())
    masks = {}
    for k in range(rounds):
        train(model, loader, masks, epochs=3)
        masks = magnitude_masks(model, keep=0.8 ** (k + 1))
        rewind(model, start, masks)
    return model, masks
