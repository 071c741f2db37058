import torch
import torch.distributed as dist


class ConfusionMatrix:
    """Counts on the device; one transfer at the end."""

    def __init__(self, classes, device):
        self.counts = torch.zeros(classes, classes, dtype=torch.long, device=device)

    def update(self, pred, target):
        n = self.counts.size(0)
        keep = (target >= 0) & (target < n)
        idx = n * target[keep] + pred[keep]
        self.counts += torch.bincount(idx, minlength=n * n).view(n, n)

    def reduce(self):
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(self.counts)
        return self

    def iou(self):
        c = self.counts.double()
        inter = c.diag()
        return (inter / (c.sum(0) + c.sum(1) - inter).clamp(min=1)).mean().item()


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    @property
    def mean(self):
        return self.total / max(1, self.count)
