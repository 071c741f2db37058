"""Multi-task ranking network for timeline candidates."""
from typing import Dict, List, Sequence

import torch
import torch.nn as nn


class Mlp(nn.Module):
    def __init__(self, in_features: int, sizes: Sequence[int], dropout: float = 0.0,
                 final_activation: bool = True):
        super().__init__()
        self.layers: List[nn.Module] = []
        width = in_features
        for i, size in enumerate(sizes):
            self.layers.append(nn.Linear(width, size))
            last = i == len(sizes) - 1
            if not last or final_activation:
                self.layers.append(nn.ReLU())
                if dropout > 0:
                    self.layers.append(nn.Dropout(dropout))
            width = size
        self.out_features = width

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class DoubleNormLog(nn.Module):
    """Compress heavy-tailed counters before the first layer."""

    def __init__(self, n_features):
        super().__init__()
        self.batch_norm = nn.BatchNorm1d(n_features, affine=False, momentum=0.01)
        self.layer_norm = nn.LayerNorm(n_features)

    def forward(self, x):
        x = torch.nan_to_num(x)
        x = torch.sign(x) * torch.log1p(x.abs())
        return self.layer_norm(self.batch_norm(x).clamp(-5, 5))


class TaskTower(nn.Module):
    def __init__(self, in_features, hidden, dropout):
        super().__init__()
        self.mlp = Mlp(in_features, hidden, dropout)
        self.head = nn.Linear(self.mlp.out_features, 1)

    def forward(self, x):
        return self.head(self.mlp(x)).squeeze(-1)


class HeavyRanker(nn.Module):
    def __init__(self, n_continuous, n_authors, tasks: Sequence[str], author_dim=32,
                 backbone=(1024, 512), tower=(256, 64), dropout=0.1):
        super().__init__()
        self.preprocess = DoubleNormLog(n_continuous)
        self.author = nn.EmbeddingBag(n_authors, author_dim, mode="mean")
        self.backbone = Mlp(n_continuous + author_dim, backbone, dropout)
        self.towers = nn.ModuleDict(
            {name: TaskTower(self.backbone.out_features, tower, dropout) for name in tasks})

    def forward(self, continuous, author_ids, offsets) -> Dict[str, torch.Tensor]:
        x = torch.cat([self.preprocess(continuous), self.author(author_ids, offsets)], dim=-1)
        x = self.backbone(x)
        return {name: tower(x) for name, tower in self.towers.items()}


def multitask_loss(logits, labels, pos_weights):
    loss = 0.0
    for name, value in logits.items():
        weight = torch.as_tensor(pos_weights[name], device=value.device)
        loss = loss + nn.functional.binary_cross_entropy_with_logits(
            value, labels[name].float(), pos_weight=weight)
    return loss / len(logits)


def build(args, device):
    model = HeavyRanker(args.n_continuous, args.n_authors, args.tasks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-5)
    return model, optimizer
