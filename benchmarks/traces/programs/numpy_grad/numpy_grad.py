import torch
from torch import nn

model = nn.Linear(4, 2)


def evaluate(x):
    out = model(x)
    return out.cpu().numpy()


print(evaluate(torch.randn(3, 4)))
