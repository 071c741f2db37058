"""Pairs of product photos and titles for contrastive training."""
import json
from pathlib import Path

import torch
from torch.utils.data import Dataset


class ProductPairs(Dataset):
    def __init__(self, root, tokenizer, context=64):
        self.root, self.tokenizer, self.context = Path(root), tokenizer, context
        self.items = json.loads((self.root / "items.json").read_text())
        self.pixels = torch.load(self.root / "pixels.pt", weights_only=True, mmap=True)

    def __len__(self):
        return len(self.items)

    def encode(self, title):
        ids = torch.zeros(self.context, dtype=torch.long)
        words = torch.tensor(self.tokenizer.encode(title)[: self.context])
        ids[: len(words)] = words
        return ids

    def __getitem__(self, index):
        ids = self.encode(self.items[index]["title"])
        image = self.pixels[index].float().div(255)
        return {
            "pixel_values": image.sub(0.5).div(0.5),
            "input_ids": torch.tensor(ids, dtype=torch.long),  # expect: ESP206
            "attention_mask": (ids != 0).long(),
            "category": torch.tensor(self.items[index]["category"]),
        }
