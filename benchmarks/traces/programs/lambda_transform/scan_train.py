import torch
from torch import nn
from torch.utils.data import DataLoader

from pipeline import Pipeline, Scans


class Screener(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def make_loader(workers=2):
    scans = Scans(32, Pipeline(0.5, 0.25))
    return DataLoader(scans, batch_size=8, num_workers=workers, multiprocessing_context="spawn")


def main():
    model = Screener()
    opt = torch.optim.Adam(model.parameters())
    for images, labels in make_loader():
        loss = nn.functional.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
