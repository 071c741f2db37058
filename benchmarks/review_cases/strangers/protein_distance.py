"""Losses over the distances of residues in predicted structures."""
import torch
import torch.nn as nn


def pairwise(coordinates):
    """(B, L, 3) to (B, L, L)."""
    gap = coordinates.unsqueeze(2) - coordinates.unsqueeze(1)
    return torch.sqrt((gap**2).sum(-1))  # expect: ESP212


class DistanceLoss(nn.Module):
    def __init__(self, cutoff=15.0):
        super().__init__()
        self.cutoff = cutoff

    def forward(self, predicted, native, mask):
        p, n = pairwise(predicted), pairwise(native)
        pairs = mask.unsqueeze(2) * mask.unsqueeze(1) * (n < self.cutoff)
        error = (p - n).abs().clamp(max=10.0)
        return (error * pairs).sum() / pairs.sum().clamp(min=1)


def refine(network, batches, steps, lr=1e-4):
    optimizer = torch.optim.Adam(network.parameters(), lr=lr)
    criterion = DistanceLoss()
    network.train()
    for _, (sequence, native, mask) in zip(range(steps), batches):
        loss = criterion(network(sequence), native, mask)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.1)
        optimizer.step()
    return network
