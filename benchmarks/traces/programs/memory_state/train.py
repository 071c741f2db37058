"""Train the memory classifier."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from model import MemoryClassifier


def accuracy(model, rows, labels):
    model.eval()
    with torch.no_grad():
        value = (model(rows).argmax(1) == labels).float().mean().item()
    model.train()
    return value


def main():
    torch.manual_seed(0)
    rows = torch.randn(120, 10)
    labels = (rows[:, 0] > 0).long()
    loader = DataLoader(TensorDataset(rows, labels), batch_size=30, shuffle=True)
    model = MemoryClassifier(10, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        for batch, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(batch), target)
            loss.backward()
            optimizer.step()
        print(epoch, accuracy(model, rows, labels))


if __name__ == "__main__":
    main()
