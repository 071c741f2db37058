import torch
from torch import nn
from torch.utils.data import DataLoader

from shapes_data import Shapes


class Segmenter(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, classes, 1))

    def forward(self, x):
        return self.body(x)


def run_epoch(model, loader, criterion, optimizer):
    for images, masks in loader:
        logits = model(images)
        loss = criterion(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    model = Segmenter()
    weight = torch.tensor([0.3, 0.7])
    run_epoch(
        model,
        DataLoader(Shapes(), batch_size=4),
        nn.CrossEntropyLoss(weight=weight),
        torch.optim.SGD(model.parameters(), lr=0.1),
    )


if __name__ == "__main__":
    main()
