"""Train a sequence tagger."""

import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from data.loader import TokenDataset, collate
from models.blocks import Tagger

BATCH = 64
WARMUP_STEPS = 400
CLIP = 1.0


def learning_rate(step, peak=3e-4):
    """Linear warm-up, then inverse square root (Vaswani et al., 2017)."""
    if step < WARMUP_STEPS:
        return peak * step / WARMUP_STEPS
    return peak * math.sqrt(WARMUP_STEPS / step)


def masked_loss(logits, targets, mask):
    """Cross entropy over the tokens of a batch."""
    flat = logits.view(-1, logits.size(-1))
    loss = nn.functional.cross_entropy(flat, targets.view(-1), reduction="none")
    return (loss * mask.view(-1)).mean()


class Trainer:
    def __init__(self, model, optimizer, device):
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.history = []
        self.best = None

    def step(self, batch, step):
        tokens, targets, mask = (each.to(self.device) for each in batch)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step)
        logits = self.model(tokens, mask)
        loss = masked_loss(logits, targets, mask)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.history.append(loss)
        return loss

    def validate(self, loader):
        total, count = 0.0, 0
        with torch.no_grad():
            for tokens, targets, mask in loader:
                logits = self.model(tokens.to(self.device), mask.to(self.device))
                predicted = logits.argmax(-1).cpu()
                total += (predicted == targets).sum().item()
                count += targets.numel()
        return total / count

    def save(self, path):
        torch.save(self.model, path)

    def load(self, path):
        self.model = torch.load(path)


def main(files, epochs=10):
    torch.manual_seed(0)
    dataset = TokenDataset(files)
    loader = DataLoader(dataset, batch_size=BATCH, collate_fn=collate, num_workers=4)
    valid = DataLoader(dataset, batch_size=BATCH, collate_fn=collate)
    model = Tagger(vocabulary=32000, width=512)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    trainer = Trainer(model.cuda(), optimizer, "cuda")
    step = 0
    for epoch in range(epochs):
        began = time.time()
        for batch in loader:
            trainer.step(batch, step)
            step += 1
        accuracy = trainer.validate(valid)
        if trainer.best is None or accuracy > trainer.best:
            trainer.best = accuracy
            trainer.save("best.pt")
        print(epoch, accuracy, time.time() - began)
