"""Federated averaging, all clients simulated on one GPU."""
import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Client:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def train(self, model, epochs=1, lr=0.01):
        opt = torch.optim.SGD(model.parameters(), lr=lr)
        model.train()
        for _ in range(epochs):
            for x, y in self.loader:
                model.cuda()  # expect: ESP402
                opt.zero_grad()
                F.cross_entropy(model(x.cuda()), y.cuda()).backward()
                opt.step()
        return {k: v.detach().cpu() for k, v in model.state_dict().items()}


def average(states):
    return {k: torch.stack([s[k].float() for s in states]).mean(0) for k in states[0]}


def federate(clients, rounds=100, fraction=0.1):
    server = nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 62))
    for r in range(rounds):
        chosen = random.sample(clients, max(1, int(fraction * len(clients))))
        server.load_state_dict(average([c.train(copy.deepcopy(server)) for c in chosen]))
        print("round", r)
    return server
