import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.criterion = nn.CrossEntropyLoss()

    def fit(self, x, y, epochs=2):
        for _ in range(epochs):
            logits = self.model(x)
            loss = self.criterion(logits, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    net = nn.Linear(8, 4)
    features = torch.randn(20, 8)
    labels = torch.randint(0, 4, (20, 1))
    Trainer(net, torch.optim.Adam(net.parameters())).fit(features, labels)
