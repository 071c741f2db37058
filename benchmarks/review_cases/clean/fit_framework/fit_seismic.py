import torch
import torch.nn as nn
import torch.nn.functional as F

from framework import Callback, Loop


class PhaseNet(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.a, self.b = nn.Conv1d(3, ch, 7, padding=3), nn.Conv1d(ch, ch, 7, padding=3)
        self.bn, self.drop, self.out = nn.BatchNorm1d(ch), nn.Dropout(0.1), nn.Conv1d(ch, 3, 1)

    def forward(self, x):
        return self.out(self.drop(F.relu(self.bn(self.b(F.relu(self.a(x)))))))


class Best(Callback):
    def __init__(self, path):
        self.path, self.best = path, float("inf")

    def on_epoch_end(self, loop):
        if loop.score < self.best:
            self.best = loop.score
            torch.save(loop.model.state_dict(), self.path)


class MixupLoop(Loop):
    def training_step(self, batch):
        x, y = batch
        if not self.model.training:
            return self.loss_fn(self.model(x), y)
        lam = torch.rand((), device=x.device)
        perm = torch.randperm(x.size(0), device=x.device)
        out = self.model(lam * x + (1 - lam) * x[perm])
        return lam * self.loss_fn(out, y) + (1 - lam) * self.loss_fn(out, y[perm])


def main(train_loader, valid_loader):
    net = PhaseNet()
    loop = MixupLoop(net, torch.optim.AdamW(net.parameters(), 1e-3), F.cross_entropy, torch.device("cuda"), [Best("phase.pt")])
    loop.run(train_loader, valid_loader, 30)
