"""Train the perceiver on random tokens."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from perceiver import Perceiver


def dataset(count, length, vocabulary, classes):
    tokens = torch.randint(1, vocabulary, (count, length))
    for row, keep in enumerate(torch.randint(5, length, (count,)).tolist()):
        tokens[row, keep:] = 0
    return TensorDataset(tokens, torch.randint(0, classes, (count,)))


def main():
    torch.manual_seed(0)
    loader = DataLoader(dataset(64, 18, 120, 4), batch_size=16, shuffle=True)
    model = Perceiver(120, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for tokens, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
