"""Predict wine quality and print class probabilities."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(11, 64)
        self.fc2 = nn.Linear(64, 32)
        self.out = nn.Linear(32, 6)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.out(x)


@torch.no_grad()
def predict_proba(model, rows, batch_size=256):
    model.eval()
    out = []
    for chunk in rows.split(batch_size):
        logits = model(chunk)
        out.append(F.softmax(logits, dim=0))  # expect: ESP202
    return torch.cat(out)


def confident(model, rows, threshold=0.9):
    proba = predict_proba(model, rows)
    top, label = proba.max(dim=1)
    return [(i, int(label[i])) for i in (top > threshold).nonzero().flatten().tolist()]


def main():
    model = WineNet()
    model.load_state_dict(torch.load("wine.pt", weights_only=True))
    rows = torch.load("wine_rows.pt", weights_only=True)
    print(confident(model, rows))


if __name__ == "__main__":
    main()
