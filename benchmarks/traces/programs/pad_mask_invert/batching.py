"""Batches of event sequences."""
import torch


def collate_events(samples):
    """Pad event vectors to the longest sequence and mark the real positions."""
    longest = max(len(events) for events, _ in samples)
    size = samples[0][0].shape[1]
    padded = torch.zeros(len(samples), longest, size)
    mask = torch.zeros(len(samples), longest)
    targets = torch.empty(len(samples))
    for row, (events, target) in enumerate(samples):
        padded[row, : len(events)] = events
        mask[row, : len(events)] = 1
        targets[row] = target
    return padded, mask, targets
