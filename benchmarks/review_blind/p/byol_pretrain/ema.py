"""Momentum copy of a network."""
import math

import torch


def cosine_tau(step, total, base=0.996):
    return 1.0 - (1.0 - base) * (math.cos(math.pi * step / total) + 1) / 2


class MomentumNet:
    def __init__(self, online, base_tau, total_steps):
        self.base_tau = base_tau
        self.total_steps = total_steps
        self.net = online
        self.step = 0

    @torch.no_grad()
    def update(self, online):
        tau = cosine_tau(self.step, self.total_steps, self.base_tau)
        for pt, po in zip(self.net.parameters(), online.parameters()):
            pt.lerp_(po, 1.0 - tau)
        for bt, bo in zip(self.net.buffers(), online.buffers()):
            bt.copy_(bo)
        self.step += 1
        return tau

    @torch.no_grad()
    def __call__(self, x):
        return self.net(x)
