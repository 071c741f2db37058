import torch
from torch import nn

from corpus import loaders


class Parity(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.cls = nn.Linear(8, 2)

    def forward(self, ids):
        _, h = self.rnn(self.emb(ids))
        return self.cls(h[-1])


def epoch(model, loader, opt=None):
    total = 0.0
    for ids, target in loader:
        loss = nn.functional.cross_entropy(model(ids), target)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    train, valid = loaders(8)
    model = Parity()
    opt = torch.optim.Adam(model.parameters())
    for e in range(3):
        print(e, epoch(model, train, opt), epoch(model, valid))


if __name__ == "__main__":
    main()
