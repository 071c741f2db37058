"""Classifier of sentence pairs."""
import torch
from torch import nn

from encoder import SentenceEncoder


class PairClassifier(nn.Module):
    """Compares two sentences with one shared encoder."""

    def __init__(self, vocabulary, classes, embedding=32, hidden=48):
        super().__init__()
        self.encoder = SentenceEncoder(vocabulary, embedding, hidden)
        size = self.encoder.output_size
        self.compare = nn.Linear(3 * size, 64)
        self.classify = nn.Linear(64, classes)

    def forward(self, left, right):
        first, second = self.encoder(left), self.encoder(right)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        return self.classify(torch.relu(self.compare(pair)))
