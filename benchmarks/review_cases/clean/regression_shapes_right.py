import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, frame, target):
        self.x = frame.drop(columns=target).to_numpy(np.float32)
        self.y = frame[target].to_numpy(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.tensor([self.y[i]])


class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.f(x)


def train(path, epochs=20):
    frame = pd.read_csv(path)
    model = Net(frame.shape[1] - 1)
    opt = torch.optim.Adam(model.parameters())
    mse = nn.MSELoss()
    for _ in range(epochs):
        for x, y in DataLoader(Rows(frame, "yield"), 64, shuffle=True):
            loss = mse(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model


def train_on_arrays(x, y, epochs=20):
    model = Net(x.shape[1])
    opt = torch.optim.Adam(model.parameters())
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.float32)
    for _ in range(epochs):
        for xb, yb in zip(x.split(128), y.split(128)):
            pred = model(xb)
            loss = nn.functional.smooth_l1_loss(pred, yb.view_as(pred))
            loss = loss + 0.1 * nn.functional.l1_loss(pred[:, 0], yb)
            loss = loss + 0.1 * nn.functional.mse_loss(pred.squeeze(1), yb)
            loss = loss + 0.1 * nn.functional.mse_loss(pred.flatten(), yb)
            loss = loss + 0.1 * nn.functional.mse_loss(pred, yb.unsqueeze(-1))
            loss = loss + 0.1 * nn.functional.mse_loss(pred, yb[:, None])
            loss = loss + 0.1 * nn.functional.mse_loss(pred, yb.reshape(-1, 1))
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
