"""Forecasting electricity load."""
import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_frame(path):
    frame = pd.read_csv(path, parse_dates=["time"])
    frame["hour"] = frame["time"].dt.hour
    return frame.drop(columns=["time"])


def windows(values, length):
    xs = [values[i:i + length] for i in range(len(values) - length)]
    ys = [values[i + length, 0] for i in range(len(values) - length)]
    return np.stack(xs).astype("float32"), np.array(ys, dtype="float32")


def make_loaders(path, length=48, batch=64):
    values = load_frame(path).to_numpy()
    scaler = StandardScaler()
    values = scaler.fit_transform(values)  # expect: ESP229
    x, y = windows(values, length)
    split = int(0.8 * len(x))
    train = TensorDataset(torch.from_numpy(x[:split]), torch.from_numpy(y[:split]))
    test = TensorDataset(torch.from_numpy(x[split:]), torch.from_numpy(y[split:]))
    return DataLoader(train, batch, shuffle=True), DataLoader(test, batch), scaler


class Forecaster(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.rnn = nn.GRU(features, 64, batch_first=True)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1]).squeeze(-1)
