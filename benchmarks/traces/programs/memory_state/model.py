"""Classifier with a slot memory."""
import torch
from torch import nn

from memory import SlotMemory


class MemoryClassifier(nn.Module):
    """Encodes, reads the memory, writes to it, and classifies."""

    def __init__(self, features, classes, size=24, slots=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(features, size), nn.Tanh())
        self.memory = SlotMemory(slots, size)
        self.head = nn.Linear(2 * size, classes)

    def forward(self, rows):
        states = self.encode(rows)
        recalled = self.memory.read(states)
        if self.training:
            self.memory.write(states)
        return self.head(torch.cat([states, recalled], dim=1))
