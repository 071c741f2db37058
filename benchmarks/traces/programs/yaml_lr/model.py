"""A small multilayer perceptron."""
from torch import nn


class Classifier(nn.Module):
    """Blocks of linear layers with dropout."""

    def __init__(self, features, classes, width, depth, dropout):
        super().__init__()
        layers = []
        size = features
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.GELU(), nn.Dropout(dropout)]
            size = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(size, classes)

    def forward(self, rows):
        return self.head(self.body(rows))
