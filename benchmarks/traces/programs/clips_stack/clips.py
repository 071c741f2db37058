import torch
from torch.utils.data import Dataset


class Clips(Dataset):
    """Mono clips; `crop` cuts them to a fixed number of samples."""

    def __init__(self, count, rate=800, crop=None):
        g = torch.Generator().manual_seed(1)
        seconds = torch.rand(count, generator=g) + 0.5
        self.waves = [torch.randn(int(s * rate), generator=g) for s in seconds]
        self.crop = crop

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        wave = self.waves[index]
        if self.crop is not None:
            wave = wave[: self.crop]
        return wave, index % 3
