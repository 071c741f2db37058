import torch
from torch import nn


class Birds(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 16, 9), nn.BatchNorm1d(16), nn.ReLU(), nn.AdaptiveAvgPool1d(8))
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, kinds))

    def forward(self, songs):
        return self.classify(self.features(songs))


def accuracy(model, songs, kinds):
    predicted = model(songs).argmax(dim=1)  # expect: ESP102
    return (predicted == kinds).float().mean().item()


def fit(train_loader, val_loader, epochs=10):
    model = Birds(kinds=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        for songs, kinds in train_loader:
            optimizer.zero_grad()
            criterion(model(songs), kinds).backward()
            optimizer.step()
        scores = []
        for songs, kinds in val_loader:
            scores.append(accuracy(model, songs, kinds))
        print(epoch, sum(scores) / len(scores))
    return model
