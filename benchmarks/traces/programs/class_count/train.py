"""Classify synthetic flowers."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from labels import class_index
from settings import make_settings

NAMES = ("rose", "tulip", "daisy", "lily", "iris", "cactus", "moss")


class Flowers(Dataset):
    """Random images with names."""

    def __init__(self, count, side):
        self.images = torch.randn(count, 3, side, side)
        self.names = [NAMES[index % len(NAMES)] for index in range(count)]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.images[index], class_index(self.names[index])


class FlowerNet(nn.Module):
    """One convolution, pooling, one linear layer."""

    def __init__(self, width, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 5, padding=2)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        return self.head(torch.relu(self.conv(images)).mean(dim=(2, 3)))


def train(settings):
    dataset = Flowers(70, settings["image_size"])
    loader = DataLoader(dataset, batch_size=settings["batch_size"])
    model = FlowerNet(settings["width"], settings["num_classes"])
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(settings["epochs"]):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    train(make_settings(epochs=1))
