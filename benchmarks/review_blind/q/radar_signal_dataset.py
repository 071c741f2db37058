"""IQ recordings with random channel impairments applied on the fly."""
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Impairment:
    def __init__(self, rng):
        self.rng = rng

    def __call__(self, iq):
        raise NotImplementedError


class AWGN(Impairment):
    def __init__(self, rng, snr_range=(-5.0, 20.0)):
        super().__init__(rng)
        self.snr_range = snr_range

    def __call__(self, iq):
        snr_db = self.rng.uniform(*self.snr_range)
        power = np.mean(np.abs(iq) ** 2)
        sigma = np.sqrt(power / (2 * 10 ** (snr_db / 10)))
        noise = self.rng.standard_normal(iq.shape) + 1j * self.rng.standard_normal(iq.shape)
        return iq + sigma * noise


class FrequencyShift(Impairment):
    def __init__(self, rng, max_shift=0.05):
        super().__init__(rng)
        self.max_shift = max_shift

    def __call__(self, iq):
        shift = self.rng.uniform(-self.max_shift, self.max_shift)
        return iq * np.exp(2j * np.pi * shift * np.arange(iq.shape[-1]))


class RandomCrop(Impairment):
    def __init__(self, rng, length=1024):
        super().__init__(rng)
        self.length = length

    def __call__(self, iq):
        start = self.rng.integers(0, iq.shape[-1] - self.length + 1)
        return iq[start:start + self.length]


class RadarDataset(Dataset):
    def __init__(self, root, classes, seed=1234, train=True):
        self.files = sorted(Path(root).glob("*/*.npy"))
        self.class_to_idx = {name: i for i, name in enumerate(classes)}
        self.rng = np.random.default_rng(seed)
        self.train = train
        self.transforms = [RandomCrop(self.rng)]
        if train:
            self.transforms += [FrequencyShift(self.rng), AWGN(self.rng)]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        iq = np.load(path)
        for transform in self.transforms:
            iq = transform(iq)
        x = np.stack([iq.real, iq.imag]).astype(np.float32)
        x /= np.abs(x).max() + 1e-8
        return torch.from_numpy(x), self.class_to_idx[path.parent.name]


def build_loader(root, classes, batch_size=256, num_workers=8, train=True):
    dataset = RadarDataset(root, classes, train=train)
    return DataLoader(dataset, batch_size=batch_size, shuffle=train,
                      num_workers=num_workers, pin_memory=True, drop_last=train)


def run_epoch(model, loader, optimizer, device):
    model.train()
    correct = seen = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (logits.argmax(1) == y).sum().item()
        seen += y.numel()
    return correct / max(seen, 1)
