import torch
import torch.nn as nn
import torch.nn.functional as F


class Meter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def update(self, value, n=1):
        self.total += float(value) * n
        self.n += n


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden=256):
        super().__init__()
        self.emb, self.cell, self.out = nn.Embedding(vocab, hidden), nn.GRUCell(hidden, hidden), nn.Linear(hidden, vocab)
        self.hidden = hidden

    def sequence_loss(self, ids):
        h = torch.zeros(ids.size(0), self.hidden, device=ids.device)
        loss = 0
        for t in range(ids.size(1) - 1):
            h = self.cell(self.emb(ids[:, t]), h)
            loss += F.cross_entropy(self.out(h), ids[:, t + 1])
        return loss / (ids.size(1) - 1)


def train(model, loader, device, epochs=5):
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    history, parts = [], {"loss": []}
    for epoch in range(epochs):
        model.train()
        running = torch.zeros((), device=device)
        for ids in loader:
            opt.zero_grad()
            loss = model.sequence_loss(ids.to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.detach()
            history.append(loss.detach())
        parts["loss"].append((running / len(loader)).item())
        valid = Meter()
        model.eval()
        with torch.no_grad():
            losses = []
            for ids in loader:
                losses.append(model.sequence_loss(ids.to(device)))
            valid.update(torch.stack(losses).mean())
    return torch.stack(history).cpu(), parts


def multi_crop_loss(model, crops, target):
    total = 0.0
    for crop in crops:
        total += F.cross_entropy(model(crop), target)
    return total / len(crops)


def train_multi(model, loader, opt):
    for crops, target in loader:
        losses = []
        for crop in crops:
            losses.append(F.cross_entropy(model(crop), target))
        loss = torch.stack(losses).mean() + multi_crop_loss(model, crops, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
