"""Stateful character model with truncated backpropagation through time."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CharModel(nn.Module):
    def __init__(self, vocab, dim=512, depth=3, dropout=0.3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.drop = nn.Dropout(dropout)
        self.rnn = nn.LSTM(dim, dim, depth, dropout=dropout)
        self.out = nn.Linear(dim, vocab)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        self.out.weight = self.embed.weight

    def forward(self, ids, state=None):
        x, state = self.rnn(self.drop(self.embed(ids)), state)
        return self.out(self.drop(x)), state


def detach(state):
    return tuple(s.detach() for s in state)


def batchify(ids, batch_size):
    steps = ids.numel() // batch_size
    return ids[:steps * batch_size].view(batch_size, steps).t().contiguous()


def windows(source, length):
    for i in range(0, source.size(0) - 1, length):
        n = min(length, source.size(0) - 1 - i)
        yield source[i:i + n], source[i + 1:i + 1 + n]


def train_epoch(model, source, optimizer, length=150, clip=0.25, log_every=200):
    model.train()
    state = None
    running = torch.zeros((), device=source.device)
    history = []
    for step, (x, y) in enumerate(windows(source, length), 1):
        if state is not None:
            state = detach(state)
        logits, state = model(x, state)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        running += loss.detach()
        history.append(loss.detach())
        if step % log_every == 0:
            mean = running.item() / log_every
            print(f"{step:6d} bpc {mean / math.log(2):.3f}")
            running.zero_()
    return torch.stack(history).cpu()


@torch.no_grad()
def evaluate(model, source, length=150):
    model.eval()
    state, total, count = None, 0.0, 0
    for x, y in windows(source, length):
        logits, state = model(x, state)
        total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum")
        count += y.numel()
    return float(total) / count / math.log(2)


def fit(model, train_ids, val_ids, epochs=20, device="cuda"):
    train, val = batchify(train_ids.to(device), 64), batchify(val_ids.to(device), 16)
    optimizer = torch.optim.Adam(model.to(device).parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    for epoch in range(epochs):
        train_epoch(model, train, optimizer)
        bpc = evaluate(model, val)
        schedule.step(bpc)
        print(f"epoch {epoch} val bpc {bpc:.3f} lr {optimizer.param_groups[0]['lr']:.2e}")
