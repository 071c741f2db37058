import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from schedule import make_schedule


class Fitter:
    def __init__(self, loader, epochs=2, accumulate=4):
        self.loader, self.epochs, self.accumulate = loader, epochs, accumulate
        self.net = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.schedule = make_schedule(self.opt, len(loader), epochs, accumulate)

    def fit(self):
        for _ in range(self.epochs):
            for i, (x, y) in enumerate(self.loader):
                loss = nn.functional.mse_loss(self.net(x).squeeze(-1), y) / self.accumulate
                loss.backward()
                if (i + 1) % self.accumulate == 0:
                    self.opt.step()
                    self.opt.zero_grad()
                self.schedule.step()


if __name__ == "__main__":
    data = TensorDataset(torch.randn(160, 5), torch.randn(160))
    Fitter(DataLoader(data, batch_size=8)).fit()
