"""Twelve-lead ECG: rhythm classes from ten seconds at 500 Hz."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Block(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv1d(cin, cout, 15, stride=2, padding=7), nn.BatchNorm1d(cout), nn.ReLU(), nn.Dropout(0.1)
        )


class RhythmNet(nn.Module):
    def __init__(self, classes=9):
        super().__init__()
        self.body = nn.Sequential(Block(12, 32), Block(32, 64), Block(64, 128), Block(128, 128))
        self.head = nn.Linear(128, classes)

    def forward(self, leads):
        return self.head(self.body(leads).mean(-1))


@torch.no_grad()
def accuracy(net, loader, device):
    net.eval()
    right = torch.zeros((), device=device)
    seen = 0
    for leads, rhythm in loader:
        right += (net(leads.to(device)).argmax(1) == rhythm.to(device)).sum()
        seen += len(rhythm)
    return right.item() / seen


def fit(train_set, valid_set, epochs=60, patience=8):
    device = torch.device("cuda")
    net = RhythmNet().to(device)
    train = DataLoader(train_set, 64, shuffle=True, num_workers=4, pin_memory=True)
    valid = DataLoader(valid_set, 256, num_workers=4, pin_memory=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    best, waited = 0.0, 0
    for epoch in range(epochs):
        for leads, rhythm in train:  # expect: ESP103
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(net(leads.to(device)), rhythm.to(device))
            loss.backward()
            optimizer.step()
        score = accuracy(net, valid, device)
        print(f"{epoch:02d} {score:.3f}")
        if score > best:
            best, waited = score, 0
            torch.save(net.state_dict(), "rhythm.pt")
        else:
            waited += 1
            if waited == patience:
                break
    return best
