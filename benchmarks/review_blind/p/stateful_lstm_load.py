"""Electricity load forecasting with a stateful LSTM (truncated BPTT)."""
import numpy as np
import torch
from torch import nn


class LoadLSTM(nn.Module):
    def __init__(self, n_series, hidden=128, layers=2, p=0.2):
        super().__init__()
        self.rnn = nn.LSTM(n_series, hidden, layers, batch_first=True, dropout=p)
        self.out = nn.Linear(hidden, n_series)
        self.hidden, self.layers = hidden, layers

    def zero_state(self, batch, device):
        shape = (self.layers, batch, self.hidden)
        return torch.zeros(shape, device=device), torch.zeros(shape, device=device)

    def forward(self, x, state):
        y, state = self.rnn(x, state)
        return self.out(y), state


def batchify(series, n_streams):
    """(T, F) -> (n_streams, T // n_streams, F)."""
    t = series.size(0) // n_streams
    return series[:t * n_streams].view(n_streams, t, -1)


def segments(streams, bptt):
    for s in range(0, streams.size(1) - 1, bptt):
        n = min(bptt, streams.size(1) - 1 - s)
        yield streams[:, s:s + n], streams[:, s + 1:s + 1 + n]


class Trainer:
    def __init__(self, model, device, bptt=96, lr=1e-3):
        self.model = model.to(device)
        self.device = device
        self.bptt = bptt
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.crit = nn.SmoothL1Loss()

    def carry(self, state):
        h, c = state
        return h.contiguous(), c.contiguous()

    def fit_epoch(self, streams):
        self.model.train()
        state = self.model.zero_state(streams.size(0), self.device)
        total, steps = 0.0, 0
        for x, y in segments(streams, self.bptt):
            pred, state = self.model(x, state)
            loss = self.crit(pred, y)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            state = self.carry(state)
            total += loss.item() * x.size(1)
            steps += x.size(1)
        return total / steps

    @torch.no_grad()
    def validate(self, streams):
        self.model.eval()
        state = self.model.zero_state(streams.size(0), self.device)
        err, n = 0.0, 0
        for x, y in segments(streams, self.bptt):
            pred, state = self.model(x, state)
            err += (pred - y).abs().sum().item()
            n += y.numel()
        return err / n


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(11)
    raw = np.load("load_hourly.npy").astype("float32")
    cut = int(len(raw) * 0.8)
    mu, sd = raw[:cut].mean(0), raw[:cut].std(0) + 1e-6
    data = torch.from_numpy((raw - mu) / sd)
    train = batchify(data[:cut], 16).to(device)
    valid = batchify(data[cut:], 4).to(device)
    tr = Trainer(LoadLSTM(data.size(1)), device)
    for epoch in range(30):
        print(epoch, f"train {tr.fit_epoch(train):.4f} mae {tr.validate(valid):.4f}")


if __name__ == "__main__":
    main()
