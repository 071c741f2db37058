import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Forecaster(nn.Module):
    def __init__(self, d, horizon):
        super().__init__()
        self.rnn, self.out = nn.GRU(d, 128, batch_first=True), nn.Linear(128, horizon)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return self.out(self.drop(self.rnn(x)[0][:, -1]))

    def predict(self, dataset, device="cuda"):
        self.eval()
        preds = []
        for x, _ in DataLoader(dataset, 512, num_workers=2):
            preds.append(self(x.to(device)))  # expect: ESP302
        return torch.cat(preds).detach().cpu()

    def fit(self, dataset, epochs=10, device="cuda"):
        self.to(device)
        opt = torch.optim.Adam(self.parameters(), 1e-3)
        for _ in range(epochs):
            self.train()
            for x, y in DataLoader(dataset, 64, shuffle=True, num_workers=2):
                loss = nn.functional.huber_loss(self(x.to(device)), y.to(device))
                opt.zero_grad()
                loss.backward()
                opt.step()
        return self
