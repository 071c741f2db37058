"""Exponential weight averaging for a keyword spotting model."""
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class WeightAverage:
    def __init__(self, model, decay=0.999, warmup=True):
        self.decay = decay
        self.warmup = warmup
        self.updates = 0
        self.shadow = {
            name: value.detach()
            for name, value in model.state_dict().items()
        }
        self.backup = None

    def current_decay(self):
        if not self.warmup:
            return self.decay
        return min(self.decay, (1 + self.updates) / (10 + self.updates))

    @torch.no_grad()
    def update(self, model):
        decay = self.current_decay()
        self.updates += 1
        for name, value in model.state_dict().items():
            average = self.shadow[name]
            if value.dtype.is_floating_point:
                average.mul_(decay).add_(value, alpha=1.0 - decay)
            else:
                average.copy_(value)

    @contextlib.contextmanager
    def applied_to(self, model):
        backup = {k: v.detach().clone() for k, v in model.state_dict().items()}
        model.load_state_dict(self.shadow)
        try:
            yield model
        finally:
            model.load_state_dict(backup)

    def state_dict(self):
        return {"shadow": self.shadow, "updates": self.updates}

    def load_state_dict(self, state):
        self.shadow = {k: v.clone() for k, v in state["shadow"].items()}
        self.updates = state["updates"]


class KeywordNet(nn.Module):
    def __init__(self, n_mels=40, classes=35, width=128):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_mels, width, 9, padding=4), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4, groups=width), nn.Conv1d(width, width, 1),
            nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(1))
        self.fc = nn.Linear(width, classes)

    def forward(self, mel):
        return self.fc(self.conv(mel).squeeze(-1))


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    hits = total = 0
    for mel, label in loader:
        pred = model(mel.to(device)).argmax(1).cpu()
        hits += (pred == label).sum().item()
        total += label.numel()
    return hits / total


def train(model, train_loader, val_loader, epochs, device="cuda"):
    model.to(device)
    average = WeightAverage(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        model.train()
        for mel, label in train_loader:
            loss = F.cross_entropy(model(mel.to(device)), label.to(device), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(model)
        with average.applied_to(model):
            print(epoch, accuracy(model, val_loader, device))
    return average
