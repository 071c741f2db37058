import tempfile

import torch
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self, path):
        self.handle = open(path)

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.tensor(i)


if __name__ == "__main__":
    name = tempfile.NamedTemporaryFile(delete=False).name
    for b in DataLoader(Lines(name), num_workers=1, multiprocessing_context="spawn"):
        print(b)
