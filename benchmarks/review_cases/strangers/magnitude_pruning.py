"""Iterative magnitude pruning for the edge model."""
import torch
import torch.nn as nn


def prunable(net):
    for name, module in net.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            yield name, module


class Pruner:
    def __init__(self, net, final=0.9, rounds=6):
        self.net, self.final, self.rounds = net, final, rounds
        self.masks = {name: torch.ones_like(m.weight) for name, m in prunable(net)}

    def sparsity(self, number):
        return self.final * (1 - (1 - number / self.rounds) ** 3)

    def update(self, number):
        for name, module in prunable(self.net):
            magnitude = module.weight.detach().abs()
            keep = int(magnitude.numel() * (1 - self.sparsity(number)))
            threshold = magnitude.flatten().topk(max(keep, 1)).values[-1]
            self.masks[name] = (magnitude >= threshold).to(magnitude.dtype)

    def apply(self):
        for name, module in prunable(self.net):
            module.weight.mul_(self.masks[name])  # expect: ESP106


def prune_and_train(net, loader, device="cuda", epochs_per_round=3):
    net.to(device).train()
    pruner = Pruner(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for number in range(1, pruner.rounds + 1):
        pruner.update(number)
        for _ in range(epochs_per_round):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x.to(device)), y.to(device)).backward()
                optimizer.step()
                pruner.apply()
    return net
