import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = nn.Linear(4, 8)
        self.image = nn.Linear(6, 8)

    def forward(self, text, image):
        return self.text(text) + self.image(image)


def evaluate(model, loader):
    total = 0.0
    for batch in loader:
        total += model(batch).sum().item()
    return total


evaluate(Fusion(), [(torch.randn(2, 4), torch.randn(2, 6))])
