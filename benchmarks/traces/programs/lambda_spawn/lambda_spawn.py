import torch
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __init__(self, base, transform):
        self.base = base
        self.transform = transform

    def __len__(self):
        return len(self.base)

    def __getitem__(self, i):
        return self.transform(self.base[i])


def make_loader():
    data = torch.randn(32, 3)
    ds = Augmented(data, transform=lambda x: x * 2 + 1)
    return DataLoader(ds, batch_size=8, num_workers=2, multiprocessing_context="spawn")


if __name__ == "__main__":
    for batch in make_loader():
        print(batch.shape)
