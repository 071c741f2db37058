import torch
import torch.nn as nn
import torch.nn.functional as F


def ranknet(scores, relevance):
    """All pairs of one query, (N, 1) against (1, N)."""
    diff = scores.unsqueeze(1) - scores.unsqueeze(0)
    sign = torch.sign(relevance[:, None] - relevance[None, :])
    keep = sign != 0
    return F.binary_cross_entropy_with_logits(diff[keep], (sign[keep] + 1) / 2)


class QuantileHead(nn.Module):
    def __init__(self, d, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.out = nn.Linear(d, len(quantiles))
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, h):
        return self.out(h)

    def loss(self, h, y):
        err = y.unsqueeze(-1) - self(h)
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


class Multi(nn.Module):
    """Ten targets at once: both sides are (B, 10)."""

    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.net(x)


def mixture_nll(logits, mu, log_sigma, y):
    log_p = -0.5 * ((y[:, None] - mu) / log_sigma.exp()) ** 2 - log_sigma
    return -torch.logsumexp(F.log_softmax(logits, -1) + log_p, -1).mean()


def fit(model, head, loader, opt):
    model.train()
    for x, many, one, scores, rel in loader:
        pred = model(x)
        loss = F.mse_loss(pred, many) + head.loss(pred, one) + ranknet(scores, rel)
        loss = loss + F.smooth_l1_loss(pred[:, :1], one.view(-1, 1)) + F.l1_loss(pred.mean(1), one)
        opt.zero_grad()
        loss.backward()
        opt.step()


def dense_labels(logits, labels):
    """Soft labels are distributions of the logits' own shape."""
    smooth = torch.full_like(logits, 0.1 / (logits.size(-1) - 1)).scatter_(1, labels[:, None], 0.9)
    per_token = F.cross_entropy(logits, smooth)
    seq = F.cross_entropy(logits[:, :, None].expand(-1, -1, 4), labels[:, None].expand(-1, 4))
    return per_token + seq
