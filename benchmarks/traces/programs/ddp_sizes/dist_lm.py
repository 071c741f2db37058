import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shard_vocab import CORPUS, shard, vocabulary


class Bow(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, 6)
        self.out = nn.Linear(6, words)

    def forward(self, ids):
        return self.out(self.bag(ids))


def main(rank, world):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29613"
    dist.init_process_group("gloo", rank=rank, world_size=world)
    lines = shard(CORPUS, rank, world)
    index = vocabulary(lines)
    model = DistributedDataParallel(Bow(len(index)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for line in lines:
        ids = torch.tensor([[index[w] for w in line.split()]])
        loss = nn.functional.cross_entropy(model(ids), ids[:, 0])
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
