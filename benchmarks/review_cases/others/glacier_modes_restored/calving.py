import torch
import torch.nn as nn
import torch.nn.functional as F

from modes import evaluating


class FrontNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Dropout2d(0.1))
        self.up = nn.ConvTranspose2d(32, 1, 4, 2, 1)

    def forward(self, radar):
        return self.up(self.mid(self.down(radar)))


def dice(net, loader, device):
    overlap = torch.zeros((), device=device)
    area = torch.zeros((), device=device)
    with evaluating(net):
        for radar, ice in loader:
            ice = ice.to(device).bool()
            guess = net(radar.to(device)) > 0
            overlap += (guess & ice).sum()
            area += guess.sum() + ice.sum()
    return (2 * overlap / area.clamp(min=1)).item()


def fit(net, train_loader, val_loader, device, steps=20_000):
    net.to(device).train()
    opt = torch.optim.Adam(net.parameters(), 1e-4)
    step = 0
    while True:
        for radar, ice in train_loader:
            opt.zero_grad()
            logits = net(radar.to(device))
            loss = F.binary_cross_entropy_with_logits(logits, ice.to(device).float().view_as(logits))
            loss.backward()
            opt.step()
            step += 1
            if step % 1000 == 0:
                print(step, dice(net, val_loader, device))
            if step == steps:
                return net
