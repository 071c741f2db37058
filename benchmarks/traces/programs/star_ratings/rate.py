import torch
from torch import nn
from torch.utils.data import DataLoader

from reviews import open_reviews


class Rater(nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, n_classes))

    def forward(self, x):
        return self.body(x)


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.opt = torch.optim.SGD(model.parameters(), lr=0.01)

    def run(self, epochs):
        for epoch in range(epochs):
            for batch in self.loader:
                self.step(batch)

    def step(self, batch):
        scores = self.model(batch["x"])
        loss = self.criterion(scores, batch["y"])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    data = open_reviews()
    Trainer(Rater(3, 5), DataLoader(data, batch_size=3)).run(2)
