import torch
from torch import nn

from attend import Tagger


def batches(n, size=4, steps=9, width=12):
    for _ in range(n):
        lengths = torch.randint(1, steps + 1, (size,))
        yield torch.randn(size, steps, width), lengths, torch.randint(0, 3, (size,))


def learn():
    model = Tagger()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for seq, lengths, tag in batches(3):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(seq, lengths), tag)
        loss.backward()
        opt.step()


learn()
