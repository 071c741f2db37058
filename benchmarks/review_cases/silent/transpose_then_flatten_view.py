import torch
import torch.nn as nn
import torch.nn.functional as F


class CTCHead(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.fc = nn.Linear(dim, vocab)

    def forward(self, x):
        return self.fc(x)


def frame_accuracy(logits, labels):
    """logits: (batch, time, vocab), labels: (batch, time)"""
    by_time = logits.transpose(0, 1)
    flat = by_time.view(-1, logits.size(-1))  # expect: ESP208
    return (flat.argmax(-1) == labels.t().reshape(-1)).float().mean()


def frame_loss(logits, labels):
    swapped = logits.permute(1, 0, 2).contiguous()
    flat = swapped.view(-1, logits.size(-1))
    return F.cross_entropy(flat, labels.t().contiguous().view(-1))


def weight_matrix(conv: nn.Conv2d):
    w = conv.weight.transpose(0, 1)
    return w.view(w.size(0), -1)  # expect: ESP208


def train(head, loader, opt):
    head.train()
    for x, y in loader:
        logits = head(x)
        loss = frame_loss(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
