"""Train a small convolutional network on raw images."""
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader

from dataset import RawImages
from images import write_samples


class SmallNet(nn.Module):
    """Two convolutions, global pooling, one linear layer."""

    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(16, classes)

    def forward(self, image):
        return self.head(self.body(image).mean(dim=(2, 3)))


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        write_samples(folder, 24)
        loader = DataLoader(RawImages(folder, classes=3), batch_size=8)
        model = SmallNet(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            loss.backward()
            optimizer.step()
            print(loss.item())


if __name__ == "__main__":
    main()
