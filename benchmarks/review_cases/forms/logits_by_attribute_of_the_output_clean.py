import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


from dataclasses import dataclass


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, y):
        logits = self.net(x)
        return Output(loss=nn.functional.cross_entropy(logits, y), logits=logits)


def train(loader, epochs):
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        kept = []
        for x, y in loader:
            output = model(x, y)
            optimizer.zero_grad()
            output.loss.backward()
            optimizer.step()
            kept.append((output.logits.detach(), y))
        print(torch.cat([logits for logits, _ in kept]).argmax(1))
