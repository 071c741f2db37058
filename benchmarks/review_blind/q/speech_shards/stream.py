"""Streaming dataset over shards of packed utterances."""
import json
import random
from pathlib import Path

import torch
from torch.utils.data import IterableDataset


class ShuffleBuffer:
    def __init__(self, size, rng):
        self.size, self.rng = size, rng

    def __call__(self, stream):
        buffer = []
        for item in stream:
            if len(buffer) < self.size:
                buffer.append(item)
                continue
            i = self.rng.randrange(self.size)
            yield buffer[i]
            buffer[i] = item
        self.rng.shuffle(buffer)
        yield from buffer


class UtteranceStream(IterableDataset):
    def __init__(self, root, tokenizer, max_frames=2000, buffer_size=2048, seed=0):
        super().__init__()
        self.shards = sorted(Path(root).glob("*.pt"))
        self.tokenizer = tokenizer
        self.max_frames = max_frames
        self.buffer_size = buffer_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _order(self):
        shards = list(self.shards)
        random.Random(self.seed + self.epoch).shuffle(shards)
        return shards

    def _read(self, shards):
        for path in shards:
            for record in torch.load(path, map_location="cpu", weights_only=True):
                feats = record["feats"]
                if feats.size(0) <= self.max_frames:
                    yield {"feats": feats, "ids": self.tokenizer(record["text"])}

    def __iter__(self):
        rng = random.Random(1000003 * self.seed + self.epoch)
        shuffle = ShuffleBuffer(self.buffer_size, rng)
        yield from shuffle(self._read(self._order()))


def write_manifest(root):
    root = Path(root)
    counts = {p.name: len(torch.load(p, map_location="cpu", weights_only=True))
              for p in sorted(root.glob("*.pt"))}
    (root / "manifest.json").write_text(json.dumps(counts))
