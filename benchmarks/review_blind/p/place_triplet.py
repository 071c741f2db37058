"""Visual place recognition with batch-hard triplet mining."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Sampler
from torchvision.models import resnet18

from places import PlaceImages


class PKSampler(Sampler):
    """Yields batches of P places with K images each."""

    def __init__(self, labels, p, k, batches):
        self.by = defaultdict(list)
        for i, l in enumerate(labels):
            self.by[l].append(i)
        self.keys = [l for l, v in self.by.items() if len(v) >= k]
        self.p, self.k, self.batches = p, k, batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            batch = []
            for l in random.sample(self.keys, self.p):
                batch += random.sample(self.by[l], self.k)
            yield batch


class GeM(nn.Module):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))
        self.eps = eps

    def forward(self, x):
        return x.clamp(min=self.eps).pow(self.p).mean(dim=(2, 3)).pow(1.0 / self.p)


class PlaceNet(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        net = resnet18(weights="IMAGENET1K_V1")
        self.features = nn.Sequential(*list(net.children())[:-2])
        self.pool = GeM()
        self.fc = nn.Linear(512, dim)

    def forward(self, x):
        return F.normalize(self.fc(self.pool(self.features(x))), dim=1)


def pairwise(e):
    sq = e.pow(2).sum(dim=1)
    d2 = sq[:, None] + sq[None, :] - 2 * e @ e.t()
    return d2.clamp(min=0).sqrt()


def batch_hard(e, labels, margin=0.2):
    d = pairwise(e)
    same = labels[:, None] == labels[None, :]
    hardest_pos = (d * same).amax(dim=1)
    hardest_neg = d.masked_fill(same, float("inf")).amin(dim=1)
    return F.relu(hardest_pos - hardest_neg + margin).mean()


@torch.inference_mode()
def recall_at_1(net, loader, device):
    net.eval()
    es, ls = [], []
    for x, l in loader:
        es.append(net(x.to(device)))
        ls.append(l.to(device))
    e, l = torch.cat(es), torch.cat(ls)
    sim = e @ e.t()
    sim.fill_diagonal_(-2.0)
    return (l[sim.argmax(dim=1)] == l).float().mean().item()


def main():
    random.seed(6)
    torch.manual_seed(6)
    device = torch.device("cuda")
    train = PlaceImages("places/train", train=True)
    val = PlaceImages("places/val", train=False)
    tl = DataLoader(train, batch_sampler=PKSampler(train.labels, 16, 4, 500), num_workers=8, pin_memory=True)
    vl = DataLoader(val, 128, num_workers=8)
    net = PlaceNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), 1e-4, weight_decay=1e-3)
    for epoch in range(20):
        net.train()
        for x, l in tl:
            loss = batch_hard(net(x.to(device, non_blocking=True)), l.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(f"{epoch} R@1 {recall_at_1(net, vl, device):.4f}")


if __name__ == "__main__":
    main()
