import torch
from torch import nn
from torch.utils.data import DataLoader

from pairs import Pairs, ToBatch


class Harness:
    def __init__(self, batch_size):
        self.loader = DataLoader(Pairs(30), batch_size=batch_size, collate_fn=ToBatch(0.1))
        self.model = nn.Linear(4, 3)

    def loss(self, batch):
        return nn.functional.cross_entropy(self.model(batch["inputs"]), batch["labels"])

    def run(self):
        opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for batch in self.loader:
            loss = self.loss(batch)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    Harness(6).run()
