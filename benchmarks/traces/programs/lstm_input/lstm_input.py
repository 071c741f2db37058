import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, n_features=6, hidden=32):
        super().__init__()
        self.lstm = nn.LSTM(n_features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


window = torch.randn(16, 24, 7)
model = Forecaster()
print(model(window).shape)
