import torch
import torch.nn.functional as F
from torch import nn


def clear(params):
    for p in params:
        p.grad = None


class DeepSets(nn.Module):
    def __init__(self, d_in, d=128):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(d_in, d), nn.ELU(), nn.Linear(d, d))
        self.rho = nn.Sequential(nn.Linear(d, d), nn.ELU(), nn.Linear(d, 1))

    def forward(self, sets):
        return self.rho(self.phi(sets).sum(1)).squeeze(-1)


def train(batches, epochs=50, lr=1e-2, momentum=0.9):
    model = DeepSets(16)
    params = [p for p in model.parameters() if p.requires_grad]
    velocity = [torch.zeros_like(p) for p in params]
    for epoch in range(epochs):
        for sets, total in batches:
            clear(params)
            loss = F.mse_loss(model(sets), total)
            loss.backward()
            with torch.no_grad():
                for p, v in zip(params, velocity):
                    v.mul_(momentum).add_(p.grad)
                    p.sub_(lr * v)
        if epoch % 10 == 0:
            print(epoch, loss.item())
    return model
