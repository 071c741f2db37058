import torch
from torch import nn

from cache import KeyCache


class Step(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.key, self.query = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.cache = KeyCache()

    def forward(self, h):
        keys = self.cache.extend(self.key(h))
        scores = self.query(h) @ keys.transpose(-2, -1)
        return scores.softmax(-1) @ keys


def decode(model, prompt, steps):
    h = model(prompt)
    outputs = [h]
    for _ in range(steps):
        h = model(outputs[-1][:, -1])
        outputs.append(h)
    return outputs


if __name__ == "__main__":
    with torch.no_grad():
        decode(Step(), torch.randn(2, 4, 8), 3)
