"""Offline replay of a click model with compiled inference."""
import argparse
import json

import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x0, x):
        return x0 * self.linear(x) + x


class ClickModel(nn.Module):
    def __init__(self, cardinalities, n_dense, dim=32, depth=3):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        width = n_dense + dim * len(cardinalities)
        self.cross = nn.ModuleList(CrossLayer(width) for _ in range(depth))
        self.mlp = nn.Sequential(nn.Linear(width, 512), nn.ReLU(),
                                 nn.Linear(512, 256), nn.ReLU())
        self.head = nn.Linear(256, 1)

    def forward(self, dense, sparse):
        parts = [dense] + [emb(sparse[:, i]) for i, emb in enumerate(self.embeds)]
        x0 = torch.cat(parts, dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.head(self.mlp(x)).squeeze(-1).sigmoid()


def auc(scores, labels):
    order = torch.argsort(scores, descending=True)
    labels = labels[order].double()
    pos, neg = labels.sum(), (1 - labels).sum()
    if pos == 0 or neg == 0:
        return float("nan")
    tpr = torch.cumsum(labels, 0) / pos
    fpr = torch.cumsum(1 - labels, 0) / neg
    return torch.trapezoid(tpr, fpr).item()


def normalized_entropy(scores, labels, eps=1e-7):
    labels = labels.double()
    scores = scores.double().clamp(eps, 1 - eps)
    ce = -(labels * scores.log() + (1 - labels) * (1 - scores).log()).mean()
    ctr = labels.mean().clamp(eps, 1 - eps)
    base = -(ctr * ctr.log() + (1 - ctr) * (1 - ctr).log())
    return (ce / base).item()


@torch.no_grad()
def replay(model, loader, device):
    model = model.to(device).eval()
    predict = torch.compile(model, mode="reduce-overhead", dynamic=False)
    predictions, labels = [], []
    for dense, sparse, label in loader:
        dense = dense.to(device, non_blocking=True)
        sparse = sparse.to(device, non_blocking=True)
        predictions.append(predict(dense, sparse))
        labels.append(label)
    scores = torch.cat(predictions).cpu()
    labels = torch.cat(labels)
    return {"auc": auc(scores, labels), "ne": normalized_entropy(scores, labels),
            "mean_score": scores.mean().item(), "ctr": labels.float().mean().item()}


def build_loader(dataset, batch_size=4096):
    return DataLoader(dataset, batch_size=batch_size, num_workers=4, pin_memory=True)


def run(args, dataset, cardinalities):
    model = ClickModel(cardinalities, args.n_dense)
    model.load_state_dict(torch.load(args.weights, map_location="cpu", weights_only=True))
    report = replay(model, build_loader(dataset), torch.device("cuda"))
    with open(args.report, "w") as handle:
        json.dump(report, handle, indent=2)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--report", default="report.json")
    parser.add_argument("--n-dense", type=int, default=13)
    return parser.parse_args()
