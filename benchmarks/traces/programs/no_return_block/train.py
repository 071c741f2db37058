"""Train the U-Net on random masks."""
import torch
from torch import nn

from unet import UNet


def batches(count, size, side):
    for _ in range(count):
        image = torch.randn(size, 1, side, side)
        yield image, (image.squeeze(1) > 0).long()


def main():
    torch.manual_seed(0)
    model = UNet(classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (image, mask) in enumerate(batches(4, 2, 32)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(image), mask)
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
