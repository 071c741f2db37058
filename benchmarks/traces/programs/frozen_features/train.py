"""Fine-tune the backbone with triplets."""
import torch
from torch.utils.data import DataLoader, Dataset

from backbone import Backbone, parameter_report
from metric import TripletObjective


class Triplets(Dataset):
    """Random triplets; the positive is the anchor with noise."""

    def __init__(self, count, side=24):
        self.images = torch.randn(count, 3, side, side)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        anchor = self.images[index]
        negative = self.images[(index + 7) % len(self.images)]
        return anchor, anchor + 0.1 * torch.randn_like(anchor), negative


def main():
    torch.manual_seed(0)
    backbone = Backbone()
    objective = TripletObjective(backbone)
    print("trainable", parameter_report(backbone))
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        for triplet in DataLoader(Triplets(32), batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = objective(*triplet)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
