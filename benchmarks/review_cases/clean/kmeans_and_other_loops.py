"""Loops over tensors that cannot or need not be otherwise."""
import torch
import torch.nn as nn
import torch.nn.functional as F


@torch.no_grad()
def kmeans(x, k, iterations=50):
    centres = x[torch.randperm(len(x), device=x.device)[:k]].clone()
    for _ in range(iterations):
        assign = torch.cdist(x, centres).argmin(1)
        for c in range(k):
            members = x[assign == c]
            if len(members):
                centres[c] = members.mean(0)
    return centres, assign


def reversed_scan(rewards, gamma):
    returns = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[0])
    for t in range(rewards.size(0) - 1, -1, -1):
        running = rewards[t] + gamma * running
        returns[t] = running
    return returns


def decode_strings(ids, tokenizer):
    return [tokenizer.decode(row) for row in ids.tolist()]


def draw(axes, images):
    for ax, image in zip(axes.flat, images.cpu()):
        ax.imshow(image.permute(1, 2, 0).numpy())
        ax.axis("off")


def nms_per_class(boxes, scores, labels, iou, nms):
    keep = []
    for c in labels.unique():
        idx = (labels == c).nonzero().squeeze(1)
        keep.append(idx[nms(boxes[idx], scores[idx], iou)])
    return torch.cat(keep)


class Scheduled(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(d, d), nn.Linear(d, d)

    def forward(self, x, steps):
        h = c = x.new_zeros(x.size(0), x.size(1))
        ys = []
        for _ in range(steps):
            h, c = self.cell(x, (h, c))
            x = self.out(h)
            ys.append(x)
        return torch.stack(ys, 1)


def grid_search(models, data):
    return {name: F.mse_loss(m(data[0]), data[1]).item() for name, m in models.items()}


def ragged(model, volumes):
    """Volumes of different sizes cannot be stacked."""
    model.eval()
    with torch.no_grad():
        return [model(v.unsqueeze(0)).squeeze(0).cpu() for v in volumes]  # allow: ESP408
