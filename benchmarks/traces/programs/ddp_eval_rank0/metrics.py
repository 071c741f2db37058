import torch
import torch.distributed as dist


class Mean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value, n):
        self.total += float(value) * n
        self.count += n

    def reduce(self):
        pair = torch.tensor([self.total, float(self.count)])
        dist.all_reduce(pair)
        return (pair[0] / pair[1]).item()
