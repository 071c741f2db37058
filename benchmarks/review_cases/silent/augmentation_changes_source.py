import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class ECGDataset(Dataset):
    """Twelve-lead recordings held in memory; augmentation adds noise and drops leads."""

    def __init__(self, path, augment=False):
        raw = np.load(path)
        self.signals = raw["signals"].astype(np.float32)
        self.labels = raw["labels"].astype(np.int64)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        signal = torch.from_numpy(self.signals[i])
        if self.augment:
            signal += 0.05 * torch.randn_like(signal)  # expect: ESP207
            lead = torch.randint(12, (1,)).item()
            signal[lead] = 0.0  # allow: ESP207
        return signal, self.labels[i]


def loaders(root):
    train = ECGDataset(f"{root}/train.npz", augment=True)
    val = ECGDataset(f"{root}/val.npz")
    return DataLoader(train, 64, shuffle=True, num_workers=4), DataLoader(val, 256, num_workers=4)
