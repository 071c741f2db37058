import torch
import torch.nn as nn
import torch.nn.functional as F

from base import BaseTrainer


class Embedder(nn.Module):
    def __init__(self, cin=1, d=64):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(cin, 32, 5, 2), nn.PReLU(), nn.Conv2d(32, 64, 5, 2), nn.PReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, d))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class TripletTrainer(BaseTrainer):
    def __init__(self, *args, margin=0.2, **kwargs):
        super().__init__(*args, **kwargs)
        self.criterion = nn.TripletMarginLoss(margin)

    def compute_loss(self, batch):
        a, p, n = (t.to(self.device) for t in batch)
        return self.criterion(self.model(a), self.model(p), self.model(n))


def main(loader):
    net = Embedder()
    trainer = TripletTrainer(net, torch.optim.Adam(net.parameters()), "cuda")
    for epoch in range(20):
        print(epoch, trainer.train_epoch(loader))
