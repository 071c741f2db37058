import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 20)

    def generate(self, h, temperature):
        logits = self.head(h) / temperature
        probs = torch.softmax(logits, -1)
        return torch.multinomial(probs, 1)


Sampler().generate(torch.randn(2, 8), temperature=0.0)
