"""Byte-level corpus for the char GPT."""
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class ByteCorpus(Dataset):
    """Non-overlapping blocks of bytes; yields (input, target)."""

    def __init__(self, path, block_size, split="train", train_frac=0.9):
        raw = torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.uint8)
        cut = int(len(raw) * train_frac)
        self.data = raw[:cut] if split == "train" else raw[cut:]
        self.block_size = block_size

    def __len__(self):
        return (len(self.data) - 1) // self.block_size

    def __getitem__(self, i):
        s = i * self.block_size
        chunk = self.data[s:s + self.block_size + 1].long()
        return chunk[:-1], chunk[1:]


def make_loader(path, block_size, batch_size, split):
    ds = ByteCorpus(path, block_size, split)
    return DataLoader(ds, batch_size=batch_size, shuffle=split == "train",
                      num_workers=2, pin_memory=True, drop_last=split == "train")
