"""Confidence calibration metrics."""
import torch
from torch import nn


class CalibrationError(nn.Module):
    def __init__(self, bins=15):
        super().__init__()
        self.bins = bins
        self.register_buffer("counts", torch.zeros(bins, dtype=torch.long))
        self.register_buffer("correct", torch.zeros(bins, dtype=torch.long))
        self.register_buffer("confidence", torch.zeros(bins, dtype=torch.long))

    @torch.no_grad()
    def update(self, logits, labels):
        probs = logits.softmax(dim=-1)
        conf, pred = probs.max(dim=-1)
        hit = pred.eq(labels)
        for b in range(self.bins):
            low, high = b / self.bins, (b + 1) / self.bins
            inside = (conf > low) & (conf <= high)
            self.counts[b] += inside.sum()
            self.correct[b] += hit[inside].sum()
            self.confidence[b] += conf[inside].sum()  # expect: ESP113

    def compute(self):
        n = self.counts.clamp(min=1)
        gap = (self.correct / n - self.confidence / n).abs()
        return (gap * self.counts / self.counts.sum()).sum()


def evaluate(model, loader, device):
    metric = CalibrationError().to(device)
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            metric.update(model(x.to(device)), y.to(device))
    return metric.compute().item()
