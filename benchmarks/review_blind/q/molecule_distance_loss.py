"""Losses on interatomic distances for a conformer generator."""
import torch
import torch.nn as nn


def pairwise_distance(pos, mask):
    """pos (B, N, 3), mask (B, N) -> distances (B, N, N) and pair mask."""
    diff = pos[:, :, None, :] - pos[:, None, :, :]
    sq = diff.pow(2).sum(-1)
    pair = mask[:, :, None] & mask[:, None, :]
    eye = torch.eye(pos.size(1), dtype=torch.bool, device=pos.device)
    pair = pair & ~eye
    dist = torch.where(pair, sq.sqrt(), torch.zeros_like(sq))
    return dist, pair


class DistanceLoss(nn.Module):
    def __init__(self, cutoff=10.0, clash_radius=1.0, clash_weight=0.1):
        super().__init__()
        self.cutoff = cutoff
        self.clash_radius = clash_radius
        self.clash_weight = clash_weight

    def forward(self, pred, target, mask):
        d_pred, pair = pairwise_distance(pred, mask)
        with torch.no_grad():
            d_true, _ = pairwise_distance(target, mask)
            near = pair & (d_true < self.cutoff)
        err = (d_pred - d_true).abs() * near
        per_mol = err.sum((1, 2)) / near.sum((1, 2)).clamp(min=1)
        clash = torch.relu(self.clash_radius - d_pred) * pair
        clash = clash.sum((1, 2)) / pair.sum((1, 2)).clamp(min=1)
        return (per_mol + self.clash_weight * clash).mean()


class EquivariantUpdate(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * hidden + 1, hidden), nn.SiLU(),
                                  nn.Linear(hidden, hidden), nn.SiLU())
        self.coord = nn.Linear(hidden, 1, bias=False)
        self.node = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(),
                                  nn.Linear(hidden, hidden))

    def forward(self, h, pos, mask):
        B, N, _ = h.shape
        diff = pos[:, :, None, :] - pos[:, None, :, :]
        sq = diff.pow(2).sum(-1, keepdim=True)
        hi = h[:, :, None, :].expand(B, N, N, -1)
        hj = h[:, None, :, :].expand(B, N, N, -1)
        m = self.edge(torch.cat([hi, hj, sq], dim=-1))
        m = m * mask[:, None, :, None]
        step = (diff / (sq + 1.0) * self.coord(m)).sum(2)
        pos = pos + step * mask[..., None]
        h = h + self.node(torch.cat([h, m.sum(2)], dim=-1))
        return h, pos


class ConformerNet(nn.Module):
    def __init__(self, n_types, hidden=128, layers=4):
        super().__init__()
        self.embed = nn.Embedding(n_types, hidden)
        self.layers = nn.ModuleList(EquivariantUpdate(hidden) for _ in range(layers))

    def forward(self, types, pos, mask):
        h = self.embed(types)
        for layer in self.layers:
            h, pos = layer(h, pos, mask)
        return pos


def train_step(model, loss_fn, optimizer, batch):
    noisy = batch["pos"] + 0.3 * torch.randn_like(batch["pos"])
    pred = model(batch["types"], noisy, batch["mask"])
    loss = loss_fn(pred, batch["pos"], batch["mask"])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.detach()
