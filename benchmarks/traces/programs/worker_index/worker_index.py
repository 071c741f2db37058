import torch
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series, size):
        self.series, self.size = series, size

    def __len__(self):
        return len(self.series)

    def __getitem__(self, i):
        x = self.series[i : i + self.size]
        return x, self.series[i + self.size]


if __name__ == "__main__":
    loader = DataLoader(Windows(torch.arange(20.0), 4), num_workers=1)
    for x, y in loader:
        pass
