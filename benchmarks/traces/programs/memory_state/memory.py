"""External memory that is read and written by attention."""
import torch
from torch import nn


class SlotMemory(nn.Module):
    """Slots (slots, size), blended with new content at every write."""

    def __init__(self, slots, size, rate=0.1):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(slots, size))
        self.write_gate = nn.Linear(size, slots)
        self.rate = rate
        self.register_buffer("content", torch.zeros(slots, size))

    def read(self, query):
        weights = torch.softmax(query @ self.keys.t(), dim=-1)
        return weights @ self.content

    def write(self, states):
        gate = torch.softmax(self.write_gate(states), dim=-1)
        update = gate.t() @ states / len(states)
        self.content = (1 - self.rate) * self.content + self.rate * update

    def reset(self):
        self.content.zero_()
