import torch
from torch.utils.data import IterableDataset


class Rolling(IterableDataset):
    def __init__(self, values, size, stride):
        self.values, self.size, self.stride = values, size, stride

    def __iter__(self):
        for start in range(0, len(self.values), self.stride):
            yield self.values[start : start + self.size]
