import torch
from torch import nn
from torch.utils.data import DataLoader

from clips import Clips


class Spectral(nn.Module):
    def __init__(self, bins=33, classes=3):
        super().__init__()
        self.bins = bins
        self.register_buffer("window", torch.hann_window(64))
        self.head = nn.Linear(bins, classes)

    def forward(self, wave):
        spec = torch.stft(wave, 64, window=self.window, return_complex=True).abs()
        return self.head(spec.mean(-1))


class Experiment:
    def __init__(self, config):
        self.loader = DataLoader(Clips(24), batch_size=config["batch"], shuffle=True)
        self.model = Spectral()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=config["lr"])

    def run(self):
        for wave, label in self.loader:
            loss = nn.functional.cross_entropy(self.model(wave), label)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


if __name__ == "__main__":
    Experiment({"batch": 6, "lr": 1e-3}).run()
