import torch
import torch.nn as nn


class StackedEncoder(nn.Module):
    """nn.LSTM wants (time, batch, features) here; inputs come batch first."""

    def __init__(self, d_in=32, hidden=64):
        super().__init__()
        self.lstm = nn.LSTM(d_in, hidden)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, x):
        batch, seq, feat = x.size()
        x = x.view(seq, batch, feat)  # expect: ESP209
        out, _ = self.lstm(x)
        return self.fc(out[-1]).squeeze(-1)


def fit(model, loader, device="cuda", epochs=10):
    model.to(device).train()
    opt = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
