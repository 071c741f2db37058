import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from cnn import SmallCNN

IMAGE = 40


class Random(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return torch.rand(3, IMAGE, IMAGE), i % 4


def main():
    model = SmallCNN(4)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for x, y in DataLoader(Random(), batch_size=5):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
