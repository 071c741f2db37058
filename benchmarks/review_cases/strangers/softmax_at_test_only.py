"""Probabilities leave the network only when it is not trained; losses that want them get them."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WasteSorter(nn.Module):
    def __init__(self, kinds=6):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU())
        self.where = nn.Conv2d(32, 1, 1)
        self.out = nn.Linear(32, kinds)
        self.dirty = nn.Linear(32, 1)

    def forward(self, image):
        maps = self.body(image)
        attention = self.where(maps).flatten(2).softmax(dim=-1)
        pooled = (maps.flatten(2) * attention).sum(-1)
        logits, dirty = self.out(pooled), torch.sigmoid(self.dirty(pooled))
        if self.training:
            return logits, dirty
        return F.softmax(logits, dim=1), dirty


def fit(net, loader, optimizer):
    kinds_loss, dirt_loss = nn.CrossEntropyLoss(), nn.BCELoss()
    net.train()
    for image, kind, dirty in loader:
        logits, dirt = net(image)
        loss = kinds_loss(logits, kind) + dirt_loss(dirt, dirty.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def log_loss(net, loader):
    net.eval()
    total = torch.zeros(())
    for image, kind, _ in loader:
        probabilities, _ = net(image)
        total += F.nll_loss(probabilities.clamp(min=1e-12).log(), kind)  # allow: ESP210
    return total / len(loader)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = [(torch.randn(4, 3, 32, 32), torch.randint(0, 6, (4,)), torch.randint(0, 2, (4,)).float())]
    sorter = WasteSorter()
    fit(sorter, data, torch.optim.Adam(sorter.parameters()))
    print(log_loss(sorter, data))
