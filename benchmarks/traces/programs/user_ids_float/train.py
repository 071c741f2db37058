"""Train the ranking model."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from features import load_table, synthetic_csv
from ranker import Ranker


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [((model(batch) > 0) == (clicks > 0.5)).float().mean() for batch, clicks in loader]
    model.train()
    return torch.stack(hits).mean().item()


def main():
    torch.manual_seed(0)
    table, clicks = load_table(synthetic_csv(400))
    dataset = TensorDataset(table, clicks)
    train_part, valid_part = random_split(dataset, [320, 80])
    train_loader = DataLoader(train_part, batch_size=64, shuffle=True)
    valid_loader = DataLoader(valid_part, batch_size=80)
    model = Ranker(users=50, items=80)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(3):
        for batch, target in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(batch), target)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), evaluate(model, valid_loader))


if __name__ == "__main__":
    main()
