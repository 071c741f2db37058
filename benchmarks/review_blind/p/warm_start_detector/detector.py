"""CenterNet-like single-stage detector head on a small conv backbone."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def cbr(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.GroupNorm(16, o), nn.SiLU(inplace=True))


class Detector(nn.Module):
    def __init__(self, n_classes, w=48):
        super().__init__()
        self.backbone = nn.Sequential(cbr(3, w, 2), cbr(w, w), cbr(w, 2 * w, 2), cbr(2 * w, 2 * w), cbr(2 * w, 2 * w))
        self.head = nn.ModuleDict({
            "heat": nn.Sequential(cbr(2 * w, w), nn.Conv2d(w, n_classes, 1)),
            "size": nn.Sequential(cbr(2 * w, w), nn.Conv2d(w, 2, 1)),
        })
        nn.init.constant_(self.head["heat"][-1].bias, -2.19)

    def forward(self, x):
        f = self.backbone(x)
        return self.head["heat"](f), self.head["size"](f)


def focal_heatmap(logits, target):
    """Penalty-reduced focal loss; target is 1 at centres, Gaussian around them."""
    pos = target.eq(1).float()
    p = logits.sigmoid()
    lp, ln = F.logsigmoid(logits), F.logsigmoid(-logits)
    loss_pos = -lp * (1 - p).pow(2) * pos
    loss_neg = -ln * p.pow(2) * (1 - target).pow(4) * (1 - pos)
    return (loss_pos.sum() + loss_neg.sum()) / pos.sum().clamp(min=1)


def size_l1(pred, target, mask):
    mask = mask.unsqueeze(1)
    return (F.l1_loss(pred, target, reduction="none") * mask).sum() / (2 * mask.sum().clamp(min=1))


@torch.inference_mode()
def decode(model, img, k=50):
    model.eval()
    heat, size = model(img)
    heat = heat.sigmoid()
    heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
    b, c, h, w = heat.shape
    score, idx = heat.flatten(1).topk(k)
    cls = torch.div(idx, h * w, rounding_mode="floor")
    pos = idx % (h * w)
    y, x = torch.div(pos, w, rounding_mode="floor"), pos % w
    wh = size.flatten(2).gather(2, pos.unsqueeze(1).expand(-1, 2, -1))
    return score, cls, torch.stack([x, y], dim=1), wh
