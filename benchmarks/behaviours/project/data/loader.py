"""Token files as a dataset."""

import random

import torch
from torch.utils.data import Dataset


class TokenDataset(Dataset):
    def __init__(self, files, length=256):
        self.length = length
        self.rows = []
        for file in files:
            with open(file) as handle:
                self.rows += [line.split() for line in handle]

    def __len__(self):
        return len(self.rows) - 1

    def __getitem__(self, index):
        row = self.rows[index]
        start = random.randint(0, max(0, len(row) - self.length))
        part = row[start : start + self.length]
        tokens = torch.tensor([int(each.split("/")[0]) for each in part])
        tags = torch.tensor([int(each.split("/")[1]) for each in part])
        return tokens, tags


def collate(batch):
    longest = max(len(tokens) for tokens, _ in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)
    tags = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros(len(batch), longest)
    for row, (some, labels) in enumerate(batch):
        tokens[row, : len(some)] = some
        tags[row, : len(labels)] = labels
        mask[row, : len(some)] = 1
    return tokens, tags, mask


def normalise(features):
    mean = features.mean(dim=0)
    std = features.std(dim=0)
    return (features - mean) / std
