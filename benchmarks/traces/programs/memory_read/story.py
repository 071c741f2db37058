import torch
from torch import nn

from memory import Reader

CONFIG = {
    "features": 10,
    "width": 32,
    "slots": 20,
    "key_size": 24,
    "classes": 4,
}


def run(config):
    model = Reader(config)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(5):
        x, y = torch.randn(6, 12, config["features"]), torch.randint(0, config["classes"], (6,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    run(CONFIG)
