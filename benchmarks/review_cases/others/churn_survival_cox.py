import torch as th
import torch.nn as nn
from torch.utils.data import DataLoader


class Hazard(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(n, 32), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(32, 1))

    def forward(self, x: th.Tensor) -> th.Tensor:
        return self.mlp(x).squeeze(-1)


def cox_loss(risk: th.Tensor, months: th.Tensor, churned: th.Tensor) -> th.Tensor:
    order = th.argsort(months, descending=True)
    risk, churned = risk[order], churned[order].float()
    at_risk = th.logcumsumexp(risk, dim=0)
    return -((risk - at_risk) * churned).sum() / churned.sum()  # expect: ESP211


def concordance(risk, months, churned):
    earlier = (months[:, None] < months[None]) & churned[:, None].bool()
    better = risk[:, None] > risk[None]
    return (earlier & better).sum().item() / max(earlier.sum().item(), 1)


def fit(customers, n_features: int, epochs: int = 40) -> Hazard:
    hazard = Hazard(n_features)
    opt = th.optim.SGD(hazard.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    sched = th.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
    for epoch in range(epochs):
        hazard.train()
        opt.zero_grad()
        for x, months, churned in DataLoader(customers, batch_size=256, shuffle=True, drop_last=True):
            loss = cox_loss(hazard(x), months, churned)
            loss.backward()  # expect: ESP101
            nn.utils.clip_grad_norm_(hazard.parameters(), 1.0)
            opt.step()
        sched.step()
    return hazard
