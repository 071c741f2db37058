import torch
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"a": torch.rand(2), "b": torch.rand(2)}, i % 2


device = torch.device("cpu")
for inputs, target in DataLoader(Pairs(), batch_size=4):
    inputs = inputs.to(device)
    target = target.to(device)
