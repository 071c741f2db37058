"""SpecAugment for bird songs, with mixing of the clean and the masked view."""
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset


class BirdSongs(Dataset):
    def __init__(self, spectrograms, species, time_mask=40, freq_mask=16):
        self.spectrograms, self.species = spectrograms, species
        self.time_mask, self.freq_mask = time_mask, freq_mask
        self.rng = np.random.default_rng()

    def __len__(self):
        return len(self.spectrograms)

    def __getitem__(self, index):
        spec = np.ascontiguousarray(np.log1p(self.spectrograms[index]), dtype=np.float32)
        clean = torch.from_numpy(spec)
        bands, frames = spec.shape
        t = self.rng.integers(0, frames - self.time_mask)
        f = self.rng.integers(0, bands - self.freq_mask)
        spec[:, t : t + self.time_mask] = 0.0  # expect: ESP207
        spec[f : f + self.freq_mask] = 0.0  # allow: ESP207
        masked = torch.tensor(spec)
        return clean.unsqueeze(0), masked.unsqueeze(0), int(self.species[index])


def consistency_loss(net, clean, masked, species, weight=0.5):
    teacher = net(clean)
    student = net(masked)
    agree = F.kl_div(student.log_softmax(1), teacher.detach().softmax(1), reduction="batchmean")
    return F.cross_entropy(teacher, species) + weight * agree
