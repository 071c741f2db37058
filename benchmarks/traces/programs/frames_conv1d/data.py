"""Synthetic tones."""
import torch
from torch.utils.data import Dataset


class Tones(Dataset):
    """Sine waves of different pitch; the label is the pitch class."""

    def __init__(self, count, samples, pitches, transform):
        self.count, self.samples, self.pitches = count, samples, pitches
        self.transform = transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = index % self.pitches
        time = torch.arange(self.samples) / self.samples
        wave = torch.sin(6.2831 * 20 * (label + 1) * time) + 0.1 * torch.randn(self.samples)
        return self.transform(wave), label
