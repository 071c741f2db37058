import torch
from torch.utils.data import Dataset


class Windows(Dataset):
    """Overlapping character windows of one long text."""

    def __init__(self, ids, length):
        self.ids = ids
        self.length = length

    def __len__(self):
        return len(self.ids) - self.length - 1

    def __getitem__(self, at):
        piece = self.ids[at : at + self.length + 1]
        return piece[:-1], piece[1:]


def load_ids(settings):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, settings.vocab, (400,), generator=generator)
