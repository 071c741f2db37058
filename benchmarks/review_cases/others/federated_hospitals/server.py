import copy

import torch
import torch.nn as nn

from scoring import auc, auc_inputs


class IcuNet(nn.Module):
    def __init__(self, vitals=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(vitals, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.4), nn.Linear(128, 1)
        )

    def forward(self, x):
        return self.net(x)


def local_update(network, loader, device, steps):
    network.train()
    opt = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    bce = nn.BCEWithLogitsLoss()
    for _, (vitals, outcome) in zip(range(steps), loader):
        loss = bce(network(vitals.to(device)).squeeze(-1), outcome.float().to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return network.state_dict()


def average(states, sizes):
    total = float(sum(sizes))
    mean = {}
    for key in states[0]:
        stacked = torch.stack([state[key].float() * (size / total) for state, size in zip(states, sizes)])
        mean[key] = stacked.sum(0).to(states[0][key].dtype)
    return mean


def run_rounds(hospitals, holdout, device, rounds=100):
    shared = IcuNet().to(device)
    shared.train()
    for round_ in range(rounds):
        states = [local_update(copy.deepcopy(shared), h.loader, device, 50) for h in hospitals]
        shared.load_state_dict(average(states, [h.size for h in hospitals]))
        scores, outcomes = auc_inputs(shared, holdout, device)  # expect: ESP102 @mode
        print(round_, auc(scores, outcomes))
    return shared
