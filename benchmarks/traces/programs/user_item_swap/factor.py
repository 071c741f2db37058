import torch
from torch import nn

from ratings import columns, synthetic

SIZES = {"users": 8, "items": 50}


class Factorizer(nn.Module):
    def __init__(self, users, items, k=4):
        super().__init__()
        self.p, self.q = nn.Embedding(users, k), nn.Embedding(items, k)

    def forward(self, user, item):
        return (self.p(user) * self.q(item)).sum(-1)


def epoch(model, table, opt):
    user, item = columns(table)
    score = model(user, item)
    loss = score.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


if __name__ == "__main__":
    model = Factorizer(**SIZES)
    print(epoch(model, synthetic(n=64, **SIZES), torch.optim.SGD(model.parameters(), lr=0.1)))
