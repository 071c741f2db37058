import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionPool(nn.Module):
    """Weights over time, one for each step."""

    def __init__(self, d):
        super().__init__()
        self.score = nn.Linear(d, 1)

    def forward(self, h, mask):
        s = self.score(h).squeeze(-1).masked_fill(~mask, float("-inf"))
        return torch.bmm(F.softmax(s, dim=1).unsqueeze(1), h).squeeze(1)


class Segmenter(nn.Module):
    def __init__(self, cin, classes):
        super().__init__()
        self.conv = nn.Conv2d(cin, classes, 1)

    def forward(self, x):
        logits = self.conv(x)
        return logits if self.training else F.softmax(logits, dim=1)


class Classifier(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.pool, self.fc = AttentionPool(d), nn.Linear(d, classes)

    def forward(self, h, mask):
        return self.fc(self.pool(h, mask))

    @torch.no_grad()
    def predict_proba(self, h, mask):
        self.eval()
        return self(h, mask).softmax(-1)


class NLLNet(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.fc = nn.Linear(d, classes)

    def forward(self, x):
        return F.log_softmax(self.fc(x), dim=1)


def losses(model, nll_net, segmenter, batch, teacher_logits, t=2.0):
    logits = model(batch["h"], batch["mask"])
    hard = F.cross_entropy(logits, batch["y"])
    probs = logits.softmax(-1)
    accuracy = (probs.argmax(-1) == batch["y"]).float().mean()
    soft_targets = F.softmax(teacher_logits / t, dim=-1)
    soft = F.cross_entropy(logits / t, soft_targets) * t * t
    kd = F.kl_div(F.log_softmax(logits / t, -1), soft_targets, reduction="batchmean")
    nll = F.nll_loss(nll_net(batch["x"]), batch["y"])
    pixel = F.cross_entropy(segmenter(batch["image"]), batch["mask2d"])
    weights = F.softmax(batch["difficulty"], dim=0)
    per = F.cross_entropy(logits, batch["y"], reduction="none")
    bce = F.binary_cross_entropy(torch.sigmoid(batch["score"]), batch["hit"])
    return hard + soft + kd + nll + pixel + (weights * per).sum() + bce, accuracy


def routing(votes, iterations=3):
    """Capsules: coupling over output capsules."""
    b = torch.zeros(votes.shape[:3], device=votes.device)
    for _ in range(iterations):
        c = F.softmax(b, dim=2)
        s = (c[..., None] * votes).sum(1, keepdim=True)
        n = s.pow(2).sum(-1, keepdim=True)
        v = n / (1 + n) * s / (n + 1e-9).sqrt()
        b = b + (votes * v).sum(-1)
    return v.squeeze(1)
