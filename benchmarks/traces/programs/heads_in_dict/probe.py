import torch
from torch import nn

from multitask import Heads

TASKS = {"sentiment": 3, "topic": 7}


def probe(features, labels, name, steps=20):
    heads = Heads(features.shape[1], TASKS)
    opt = torch.optim.LBFGS(heads.parameters(), lr=0.5)

    def closure():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(heads(features, name), labels)
        loss.backward()
        return loss

    for _ in range(steps):
        opt.step(closure)
    return heads


if __name__ == "__main__":
    probe(torch.randn(50, 12), torch.randint(0, 3, (50,)), "sentiment")
