"""Train the pair classifier on random sentences."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from classifier import PairClassifier

VOCABULARY, CLASSES, LENGTH = 200, 3, 12


def random_pairs(count):
    left = torch.randint(1, VOCABULARY, (count, LENGTH))
    right = torch.randint(1, VOCABULARY, (count, LENGTH))
    right[:, 9:] = 0
    return TensorDataset(left, right, torch.randint(0, CLASSES, (count,)))


def main():
    torch.manual_seed(0)
    loader = DataLoader(random_pairs(96), batch_size=16, shuffle=True)
    model = PairClassifier(VOCABULARY, CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        for left, right, label in loader:
            optimizer.zero_grad()
            loss = criterion(model(left, right), label)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
