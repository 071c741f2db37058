from dataclasses import dataclass

import torch
import torch.nn as nn
from torchvision.models import densenet121

import optim
from xray_data import FINDINGS, XRays, loader


@dataclass
class Config:
    root: str = "nih14"
    batch: int = 48
    lr: float = 3e-4
    weight_decay: float = 1e-2
    epochs: int = 12
    seed: int = 77


def build_model():
    net = densenet121(weights="IMAGENET1K_V1")
    old = net.features.conv0
    conv = nn.Conv2d(1, old.out_channels, 7, 2, 3, bias=False)
    with torch.no_grad():
        conv.weight.copy_(old.weight.sum(dim=1, keepdim=True))
    net.features.conv0 = conv
    net.classifier = nn.Linear(net.classifier.in_features, len(FINDINGS))
    return net


def auroc(score, label):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label == 1
    n1, n0 = pos.sum().item(), (~pos).sum().item()
    if n1 == 0 or n0 == 0:
        return float("nan")
    return ((rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.dev = torch.device("cuda")
        train = XRays(cfg.root, "train")
        self.tl = loader(train, cfg.batch, True)
        self.vl = loader(XRays(cfg.root, "val"), 96, False)
        self.net = build_model().to(self.dev)
        self.crit = nn.BCEWithLogitsLoss(pos_weight=train.pos_weight().to(self.dev))
        self.opt, self.sched = optim.build(self.net, cfg, len(self.tl))

    def train_epoch(self):
        self.net.train()
        total = torch.zeros((), device=self.dev)
        for img, lab in self.tl:
            img, lab = img.to(self.dev, non_blocking=True), lab.to(self.dev, non_blocking=True)
            loss = self.crit(self.net(img), lab)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.detach()
        return total.item() / len(self.tl)

    @torch.inference_mode()
    def validate(self):
        self.net.eval()
        s, l = zip(*((self.net(x.to(self.dev)).cpu(), y) for x, y in self.vl))
        s, l = torch.cat(s).double(), torch.cat(l)
        return {f: auroc(s[:, i], l[:, i]) for i, f in enumerate(FINDINGS)}

    def fit(self):
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            self.sched.step()
            aucs = torch.tensor(list(self.validate().values()))
            print(f"{epoch} loss {loss:.4f} lr {self.sched.get_last_lr()[0]:.2e} auc {aucs.nanmean():.4f}")
        torch.save(self.net.state_dict(), "xray.pt")


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(cfg.seed)
    Runner(cfg).fit()
