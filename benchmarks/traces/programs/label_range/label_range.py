import torch
import torch.nn.functional as F
from torch import nn

NUM_CLASSES = 9


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 32)
        self.head = nn.Linear(32, NUM_CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def train_epoch(model, batches):
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()


def load_batches():
    for _ in range(4):
        yield torch.randn(16, 12), torch.arange(1, 17).clamp(max=9)


train_epoch(Classifier(), load_batches())
