"""Stock forecaster: LSTM with explicit initial states."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda"


class LSTMForecaster(nn.Module):
    def __init__(self, n_features, hidden_size=128, num_layers=2):
        super().__init__()
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.lstm = nn.LSTM(n_features, hidden_size, num_layers, batch_first=True)
        self.linear = nn.Linear(hidden_size, 1)

    def init_hidden(self, batch_size):
        h0 = torch.zeros(self.num_layers, batch_size, self.hidden_size)  # expect: ESP104 @init
        c0 = torch.zeros(self.num_layers, batch_size, self.hidden_size)
        return h0, c0

    def forward(self, x):
        h0, c0 = self.init_hidden(x.size(0))
        out, _ = self.lstm(x, (h0, c0))  # expect: ESP104 @init
        return self.linear(out[:, -1]).squeeze(-1)


def windows(series, size=60):
    xs = np.stack([series[i : i + size] for i in range(len(series) - size)]).astype(np.float32)
    ys = series[size:, 0].astype(np.float32)
    return TensorDataset(torch.from_numpy(xs), torch.from_numpy(ys))


def fit(series, epochs=40):
    loader = DataLoader(windows(series), batch_size=64, shuffle=True)
    model = LSTMForecaster(series.shape[1]).to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    crit = nn.MSELoss()
    model.train()
    for epoch in range(epochs):
        for xb, yb in loader:
            xb, yb = xb.to(DEVICE), yb.to(DEVICE)
            opt.zero_grad()
            loss = crit(model(xb), yb)
            loss.backward()
            opt.step()
        print(epoch, loss.item())
    return model
