"""Token shards read by every data-loading process of every rank."""
import random
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info


def reader_index(rank, world):
    """Position of this reader among all readers of the job."""
    info = get_worker_info()
    worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
    return rank * workers + worker, world * workers


class TokenStream(IterableDataset):
    """Endless stream of (input, target) windows."""

    def __init__(self, root, block, rank=0, world=1, seed=0):
        super().__init__()
        self.files = sorted(Path(root).glob("*.bin"))
        self.block, self.seed = block, seed
        self.rank, self.world = rank, world

    def __iter__(self):
        reader, readers = reader_index(self.rank, self.world)
        if len(self.files) < readers:
            raise RuntimeError(f"{len(self.files)} shards cannot feed {readers} readers")
        shared = random.Random(self.seed)
        private = random.Random(self.seed * 7919 + reader)
        while True:
            order = list(self.files)
            shared.shuffle(order)
            for path in order[reader::readers]:
                yield from self._windows(path, private)

    def _windows(self, path, rng):
        tokens = np.memmap(path, dtype=np.uint16, mode="r")
        count = (len(tokens) - 1) // self.block
        starts = [i * self.block for i in range(count)]
        rng.shuffle(starts)
        for s in starts:
            window = torch.from_numpy(tokens[s:s + self.block + 1].astype(np.int64))
            yield window[:-1], window[1:]
